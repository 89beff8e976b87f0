#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "client/download.h"
#include "http/write_queue.h"
#include "tinker/http.h"

namespace tinker::client {

/// Writes the answer to a request for a piece into the file of its object, by the workers, a
/// bounded amount at a time. Bodies of other answers are dropped unread. Loop thread only.
class PieceSink final : public http::BodySink {
 public:
  PieceSink(std::shared_ptr<Download> download, std::shared_ptr<const Object> object, Piece piece);

  Result<void> begin(const http::Response& head) override;
  Result<void> write(std::string_view bytes) override;
  [[nodiscard]] bool has_room() const noexcept override { return writes_->has_room(); }

  /// Waits until all that came is written; with the first error there was.
  [[nodiscard]] async::Task<> drain() const { return http::WriteQueue::drain(writes_); }
  /// What the complete answer says, after `drain`: an error unless all of it came.
  Result<ObjectHead> settle(const http::Response& response);
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
  std::optional<std::uint64_t> end_ = {};  // nothing: until the answer ends
  std::uint64_t counted_ = 0;              // by the progress
  std::shared_ptr<http::WriteQueue> writes_;
};

}  // namespace tinker::client
