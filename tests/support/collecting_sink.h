#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>

#include "tinker/http.h"

namespace tinker::testing {

/// Keeps the body of an answer; has room for `room` bytes at first.
class CollectingSink final : public http::BodySink {
 public:
  explicit CollectingSink(std::size_t room = SIZE_MAX) : room_(room) {}

  Result<void> begin(const http::Response& head) override {
    status = head.status;
    if (refusal) return *refusal;
    return {};
  }
  Result<void> write(std::string_view piece) override {
    body += piece;
    received = body.size();
    return {};
  }
  [[nodiscard]] bool has_room() const noexcept override { return received < room_; }
  void make_room() { room_ = SIZE_MAX; }

  std::optional<Error> refusal = {};  ///< What `begin` returns.
  int status = 0;
  std::string body = {};  ///< To be read after the answer.
  std::atomic<std::size_t> received = 0;

 private:
  std::atomic<std::size_t> room_;
};

}  // namespace tinker::testing
