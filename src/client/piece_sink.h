#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "client/download.h"
#include "tinker/http.h"

namespace tinker::client {

/// Writes the answer to a request for a piece into the file of its object, by the workers, a
/// bounded amount at a time. Bodies of other answers are dropped unread. Loop thread only.
class PieceSink final : public http::BodySink {
 public:
  PieceSink(std::shared_ptr<Download> download, std::shared_ptr<const Object> object, Piece piece)
      : download_(std::move(download)), object_(std::move(object)), piece_(piece) {}

  Result<void> begin(const http::Response& head) override;
  Result<void> write(std::string_view bytes) override;
  [[nodiscard]] bool has_room() const noexcept override;

  /// Waits until nothing of it is being written any more; with the first error there was.
  static async::Task<> drain(std::shared_ptr<PieceSink> self);
  /// What the complete answer says, after `flush` and `drain`: an error unless all of it came.
  Result<ObjectHead> settle(const http::Response& response);
  /// Hands what is left to the workers.
  void flush();
  /// What came does not count.
  void give_up();

 private:
  Result<void> begin_part(const http::Response& head);
  Result<void> begin_whole(const http::Response& head);

  std::shared_ptr<Download> download_;
  std::shared_ptr<const Object> object_;
  Piece piece_;
  bool has_begun_ = false;
  bool is_wanted_ = false;
  ObjectHead head_ = {};
  std::uint64_t position_ = 0;             // of the first byte in `buffer_`
  std::optional<std::uint64_t> end_ = {};  // nothing: until the answer ends
  std::string buffer_ = {};
  std::uint64_t counted_ = 0;  // by the progress
  std::deque<Future<void>> writes_ = {};
  std::shared_ptr<std::atomic<std::size_t>> pending_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace tinker::client
