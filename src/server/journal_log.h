#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event_loop.h"
#include "server/journal_file.h"
#include "tinker/executor.h"
#include "tinker/future.h"

namespace tinker::server {

/// A journal as the loop sees it: appends return at once, a thread writes. What is appended while
/// it writes goes to the disk together, with one sync. Loop thread only.
///
/// What could not be written (the disk is full) is kept, and written with what comes next; those
/// who waited for it get the error and may wait again.
class JournalLog : public std::enable_shared_from_this<JournalLog> {
 public:
  using Keep = std::function<bool(const JournalRecord&)>;

  /// The file is made with the first record. `thread` must be one thread only.
  JournalLog(std::shared_ptr<Executor> thread,
             std::shared_ptr<async::EventLoop> loop,
             std::string path);
  /// Goes on with a file that is there.
  JournalLog(std::shared_ptr<Executor> thread,
             std::shared_ptr<async::EventLoop> loop,
             JournalFile file);

  void append(JournalRecord record);
  /// Ends when all that was appended before is on the disk.
  Future<void> sync();
  /// Puts `head` and those records for which `keep` is true, called on the thread, in the place of
  /// all records that were appended before.
  Future<void> rewrite(std::vector<JournalRecord> head, Keep keep);
  /// Removes `folder` with all that is in it, the file included, after what is being written. From
  /// then on appends do nothing.
  void discard(std::string folder);

  /// The last attempt to write failed.
  [[nodiscard]] bool is_failing() const noexcept { return is_failing_; }
  [[nodiscard]] bool is_discarded() const noexcept { return is_discarded_; }
  /// Bytes of records since the last `rewrite`.
  [[nodiscard]] std::size_t appended_bytes() const noexcept { return appended_bytes_; }

 private:
  struct Disk;
  void write_next();
  void written(std::vector<JournalRecord> batch, const Result<void>& outcome);

  std::shared_ptr<Executor> thread_;
  std::shared_ptr<async::EventLoop> loop_;
  std::shared_ptr<Disk> disk_;  // used on the thread only
  std::vector<JournalRecord> queue_ = {};
  std::vector<Promise<void>> waiting_ = {};   // for the queue
  std::vector<Promise<void>> watching_ = {};  // for what is being written
  std::size_t appended_bytes_ = 0;
  bool is_writing_ = false;
  bool is_failing_ = false;
  bool is_discarded_ = false;
};

}  // namespace tinker::server
