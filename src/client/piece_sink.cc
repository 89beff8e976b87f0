#include "client/piece_sink.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "http/ascii.h"
#include "http/content_range.h"
#include "http/retry_after.h"

namespace tinker::client {

namespace {

Error unusable(std::string message) {
  return {.code = ErrorCode::invalid_response, .message = std::move(message)};
}

Error changed() {
  return {.code = ErrorCode::conflict, .message = "the file changed in storage meanwhile"};
}

/// One that only the same bytes have (RFC 9110, section 8.8.1), or nothing.
std::string strong_etag(const http::Headers& headers) {
  const auto etag = headers.find("etag").value_or("");
  const bool is_strong = etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
  const bool is_plain = std::ranges::all_of(etag, [](char c) { return c > ' ' && c < '\x7f'; });
  return is_strong && is_plain ? std::string(etag) : std::string();
}

bool is_chunked(const http::Headers& headers) {
  return http::ascii::to_lower(headers.find("transfer-encoding").value_or("")).ends_with("chunked");
}

}  // namespace

PieceSink::PieceSink(std::shared_ptr<Download> download,
                     std::shared_ptr<const Object> object,
                     Piece piece)
    : download_(std::move(download)),
      object_(std::move(object)),
      piece_(piece),
      writes_(std::make_shared<http::WriteQueue>(
          download_->runtime(),
          [file = object_->file](std::uint64_t offset, std::string_view bytes) {
            return file->write(offset, bytes);
          })) {}

Result<void> PieceSink::begin(const http::Response& head) {
  has_begun_ = true;
  if (head.status != 200 && head.status != 206) return {};
  const auto coding = head.headers.find("content-encoding").value_or("identity");
  if (http::ascii::to_lower(coding) != "identity") {
    return unusable(base::concat("storage sends it packed by ", http::ascii::printable(coding)));
  }
  is_wanted_ = true;
  head_.etag = strong_etag(head.headers);
  TINKER_TRY(head.status == 206 ? begin_part(head) : begin_whole(head));
  head_.checksum = find_checksum(head.headers, head_.is_whole);
  return {};
}

Result<void> PieceSink::begin_part(const http::Response& head) {
  const auto text = head.headers.find("content-range").value_or("");
  const auto range = http::parse_content_range(text);
  if (!range || piece_.is_all || range->begin != piece_.offset ||
      range->end != std::min(piece_.offset + piece_.bytes, range->total)) {
    return unusable(base::concat("storage was asked for ",
                                 piece_.bytes,
                                 " bytes from ",
                                 piece_.offset,
                                 " and sends \"",
                                 http::ascii::printable(text),
                                 "\""));
  }
  const auto& parts = object_->parts;
  if (parts && (range->total != parts->size || head_.etag != parts->etag)) return changed();
  head_.size = range->total;
  head_.is_whole = range->begin == 0 && range->end == range->total;
  head_.is_range = true;
  writes_->seek(range->begin);
  end_ = range->end;
  return {};
}

Result<void> PieceSink::begin_whole(const http::Response& head) {
  if (object_->parts) return changed();  // no part any more of what the other parts are of
  head_.is_whole = true;
  end_ = http::content_length(head.headers);
  return {};
}

Result<void> PieceSink::write(std::string_view bytes) {
  if (!is_wanted_) return {};
  if (end_ && bytes.size() > *end_ - writes_->end()) {
    return unusable("storage sends more than it announced");
  }
  TINKER_TRY(writes_->add(bytes));
  if (piece_.is_look) return {};
  counted_ += bytes.size();
  download_->progress.add(object_->name, bytes.size());
  return {};
}

void PieceSink::give_up() {
  download_->progress.remove(std::exchange(counted_, 0));
}

Result<ObjectHead> PieceSink::settle(const http::Response& response) {
  if (!has_begun_) {  // there was no body
    TINKER_TRY(begin(response));
  }
  const bool is_empty = response.status == 416 && piece_.offset == 0 && !object_->parts &&
                        response.headers.find("content-range") == "bytes */0";
  if (is_empty) return ObjectHead{.is_whole = true};
  if (response.status == 416) return changed();
  if (!is_wanted_) {
    Error error = {.code = error_code_for_status(response.status),
                   .message = base::concat("storage answers ", response.status),
                   .http_status = response.status};
    error.retry.retryable = http::is_retryable(error);
    const auto now = download_->runtime()->clock().wall_time();
    if (const auto after = http::retry_after(response.headers, now)) {
      error.retry.after = std::chrono::duration_cast<std::chrono::milliseconds>(*after);
    }
    return error;
  }
  if (end_ && writes_->end() != *end_) {
    return Error{.code = ErrorCode::connection_failed,
                 .message = base::concat(
                     "the answer is cut short: ", *end_ - writes_->end(), " bytes are missing"),
                 .retry = {.retryable = true}};
  }
  if (!end_) {
    if (!is_chunked(response.headers) && head_.checksum.kind == Checksum::none) {
      return unusable("storage does not say how long it is, so it could be cut short");
    }
    head_.size = writes_->end();
  } else if (head_.is_whole) {
    head_.size = *end_;
  }
  return head_;
}

}  // namespace tinker::client
