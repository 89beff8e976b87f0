#include "tokenizer/hub_sinks.h"

#include <utility>

#include "base/strings.h"
#include "http/ascii.h"
#include "http/content_range.h"

namespace tinker::tokenizer {

namespace {

Error unusable(std::string message) {
  return {.code = ErrorCode::invalid_response, .message = std::move(message)};
}

}  // namespace

BlobSink::BlobSink(const std::shared_ptr<async::RuntimeCore>& runtime,
                   std::shared_ptr<const IncompleteBlob> blob,
                   std::uint64_t have,
                   std::function<Result<void>(std::uint64_t)> progress)
    : blob_(std::move(blob)),
      have_(have),
      progress_(std::move(progress)),
      writes_(std::make_shared<http::WriteQueue>(
          runtime, [file = blob_](std::uint64_t offset, std::string_view bytes) {
            return file->write(offset, bytes);
          })) {}

Result<void> BlobSink::begin(const http::Response& head) {
  has_begun_ = true;
  is_wanted_ = head.status == 200 || head.status == 206;
  if (!is_wanted_) return {};
  const auto coding = head.headers.find("content-encoding").value_or("identity");
  if (http::ascii::to_lower(coding) != "identity") {
    return unusable(base::concat("the hub sends it packed by ", http::ascii::printable(coding)));
  }
  if (head.status == 200) {
    end_ = http::content_length(head.headers);
    return blob_->cut(0);
  }
  const auto text = head.headers.find("content-range").value_or("");
  const auto range = http::parse_content_range(text);
  if (!range || range->begin != have_ || range->end != range->total) {
    return unusable(base::concat("the hub was asked for all from byte ",
                                 have_,
                                 " on and sends \"",
                                 http::ascii::printable(text),
                                 "\""));
  }
  writes_->seek(have_);
  end_ = range->end;
  return {};
}

Result<void> BlobSink::write(std::string_view bytes) {
  if (!is_wanted_) return {};
  if (end_ && bytes.size() > *end_ - writes_->end()) {
    return unusable("the hub sends more than it announced");
  }
  TINKER_TRY(writes_->add(bytes));
  return progress_ ? progress_(writes_->end()) : Result<void>();
}

Result<std::uint64_t> BlobSink::settle(const http::Response& response) {
  if (!has_begun_) {  // there was no body
    TINKER_TRY(begin(response));
  }
  if (end_ && writes_->end() != *end_) {
    return Error{.code = ErrorCode::connection_failed,
                 .message = base::concat(
                     "the answer is cut short: ", *end_ - writes_->end(), " bytes are missing"),
                 .retry = {.retryable = true}};
  }
  return writes_->end();
}

}  // namespace tinker::tokenizer
