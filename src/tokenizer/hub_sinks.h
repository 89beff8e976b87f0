#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "http/write_queue.h"
#include "tinker/http.h"
#include "tokenizer/hub_cache.h"

namespace tinker::tokenizer {

/// Keeps the head of an answer and wants nothing of its body. Loop thread only.
class HeadSink final : public http::BodySink {
 public:
  Result<void> begin(const http::Response& head) override {
    head_ = head;
    if (head.status != 200) return {};
    return Error{.code = ErrorCode::cancelled, .message = "the head is enough"};
  }
  Result<void> write(std::string_view /*piece*/) override { return {}; }
  [[nodiscard]] bool has_room() const noexcept override { return true; }

  /// What came before the request ended, if it got that far.
  [[nodiscard]] const std::optional<http::Response>& head() const noexcept { return head_; }

 private:
  std::optional<http::Response> head_ = {};
};

/// Writes an answer behind what a blob has already, or over it where the answer begins anew. Bodies
/// of other answers are dropped. Loop thread only.
class BlobSink final : public http::BodySink {
 public:
  /// The request asks for what follows the first `have` bytes; `progress`, if any, is told how many
  /// there are.
  BlobSink(const std::shared_ptr<async::RuntimeCore>& runtime,
           std::shared_ptr<const IncompleteBlob> blob,
           std::uint64_t have,
           std::function<Result<void>(std::uint64_t)> progress);

  Result<void> begin(const http::Response& head) override;
  Result<void> write(std::string_view bytes) override;
  [[nodiscard]] bool has_room() const noexcept override { return writes_->has_room(); }

  /// Waits until all that came is written; with the first error there was.
  [[nodiscard]] async::Task<> drain() const { return http::WriteQueue::drain(writes_); }
  /// How much there is of the content, after a successful answer and `drain`: an error unless that
  /// is all.
  Result<std::uint64_t> settle(const http::Response& response);

 private:
  std::shared_ptr<const IncompleteBlob> blob_;
  std::uint64_t have_;
  std::function<Result<void>(std::uint64_t)> progress_;
  bool has_begun_ = false;
  bool is_wanted_ = false;
  std::optional<std::uint64_t> end_ = {};  // nothing: until the answer ends
  std::shared_ptr<http::WriteQueue> writes_;
};

}  // namespace tinker::tokenizer
