#include "client/piece_sink.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"
#include "http/api_client.h"
#include "http/ascii.h"
#include "http/retry_after.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxPending = 4 * kWriteBytes;

Error unusable(std::string message) {
  return {.code = ErrorCode::invalid_response, .message = std::move(message)};
}

Error changed() {
  return {.code = ErrorCode::conflict, .message = "the file changed in storage meanwhile"};
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // one beyond the last byte
  std::uint64_t total = 0;
};

/// "bytes 0-99/1234".
std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!take(text, "bytes ")) return std::nullopt;
  const auto first = take_number(text);
  if (!first || !take(text, "-")) return std::nullopt;
  const auto last = take_number(text);
  if (!last || !take(text, "/")) return std::nullopt;
  const auto total = take_number(text);
  if (!total || !text.empty() || *last < *first || *last >= *total) return std::nullopt;
  return ContentRange{.begin = *first, .end = *last + 1, .total = *total};
}

/// One that only the same bytes have (RFC 9110, section 8.8.1), or nothing.
std::string strong_etag(const http::Headers& headers) {
  const auto etag = headers.find("etag").value_or("");
  const bool is_strong = etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
  const bool is_plain = std::ranges::all_of(etag, [](char c) { return c > ' ' && c < '\x7f'; });
  return is_strong && is_plain ? std::string(etag) : std::string();
}

std::optional<std::uint64_t> content_length(const http::Headers& headers) {
  auto text = headers.find("content-length").value_or("");
  const auto length = take_number(text);
  return text.empty() ? length : std::nullopt;
}

bool is_chunked(const http::Headers& headers) {
  return http::ascii::to_lower(headers.find("transfer-encoding").value_or("")).ends_with("chunked");
}

}  // namespace

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
  const auto range = parse_content_range(text);
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
  position_ = range->begin;
  end_ = range->end;
  return {};
}

Result<void> PieceSink::begin_whole(const http::Response& head) {
  if (object_->parts) return changed();  // no part any more of what the other parts are of
  head_.is_whole = true;
  end_ = content_length(head.headers);
  return {};
}

Result<void> PieceSink::write(std::string_view bytes) {
  if (!is_wanted_) return {};
  if (end_ && bytes.size() > *end_ - position_ - buffer_.size()) {
    return unusable("storage sends more than it announced");
  }
  buffer_ += bytes;
  if (buffer_.size() >= kWriteBytes) flush();
  // Errors of the disk come late, but no later than `drain`.
  while (!writes_.empty() && writes_.front().is_ready()) {
    TINKER_TRY(writes_.front().get());
    writes_.pop_front();
  }
  return {};
}

bool PieceSink::has_room() const noexcept {
  return *pending_ + buffer_.size() < kMaxPending;
}

void PieceSink::flush() {
  if (buffer_.empty()) return;
  const std::size_t size = buffer_.size();
  *pending_ += size;
  writes_.push_back(download_->runtime()->offload([file = object_->file,
                                                   pending = pending_,
                                                   at = position_,
                                                   bytes = std::exchange(buffer_, {})] {
    auto written = file->write(at, bytes);
    *pending -= bytes.size();
    return written;
  }));
  position_ += size;
  if (piece_.is_look) return;
  counted_ += size;
  download_->progress.add(object_->name, size);
}

void PieceSink::give_up() {
  buffer_.clear();
  download_->progress.remove(std::exchange(counted_, 0));
}

Task<> PieceSink::drain(std::shared_ptr<PieceSink> self) {
  Result<void> outcome;
  while (!self->writes_.empty()) {
    auto wait = async::until(std::move(self->writes_.front()));
    self->writes_.pop_front();
    auto written = co_await wait;
    if (outcome.ok()) outcome = std::move(written);
  }
  co_return outcome;
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
  if (end_ && position_ != *end_) {
    return Error{.code = ErrorCode::connection_failed,
                 .message = base::concat(
                     "the answer is cut short: ", *end_ - position_, " bytes are missing"),
                 .retry = {.retryable = true}};
  }
  if (!end_) {
    if (!is_chunked(response.headers) && head_.checksum.kind == Checksum::none) {
      return unusable("storage does not say how long it is, so it could be cut short");
    }
    head_.size = position_;
  } else if (head_.is_whole) {
    head_.size = *end_;
  }
  return head_;
}

}  // namespace tinker::client
