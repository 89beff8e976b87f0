#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/runtime_core.h"

namespace tinker::http {

/// Bytes on their way from the loop into a file: the workers write them, one after the other, so
/// that the file never has a hole, and a bounded amount waits. For body sinks. Loop thread only.
class WriteQueue {
 public:
  /// Writes `bytes` where they belong. Called by one worker at a time.
  using Write = std::function<Result<void>(std::uint64_t offset, std::string_view bytes)>;

  WriteQueue(std::shared_ptr<async::RuntimeCore> runtime, Write write);

  /// The next bytes belong there. To be called before the first of them.
  void seek(std::uint64_t offset) noexcept { end_ = offset; }
  /// Fails as an earlier write did: errors of the disk come late, but no later than `drain`.
  Result<void> add(std::string_view bytes);
  [[nodiscard]] bool has_room() const noexcept;
  /// One beyond the last byte that was added.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

  /// Waits until all is written; with the first error there was.
  static async::Task<> drain(std::shared_ptr<WriteQueue> self);

 private:
  struct Pieces;
  void flush();

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::shared_ptr<Pieces> pieces_;
  std::string buffer_ = {};
  std::uint64_t end_ = 0;
  std::optional<Future<void>> working_ = {};
};

}  // namespace tinker::http
