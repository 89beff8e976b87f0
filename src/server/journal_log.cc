#include "server/journal_log.h"

#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "server/offload.h"

namespace tinker::server {

struct JournalLog::Disk {
  std::string path;
  std::optional<JournalFile> file = {};

  Result<void> append(std::span<const JournalRecord> records) {
    if (records.empty()) return {};
    if (file) return file->append(records);
    TINKER_TRY(file, JournalFile::create(path, records));
    return {};
  }
  Result<void> rewrite(std::span<const JournalRecord> head, const Keep& keep) {
    if (!file) return {};
    TINKER_TRY(file, file->rewrite(head, keep));
    return {};
  }
};

JournalLog::JournalLog(std::shared_ptr<Executor> thread,
                       std::shared_ptr<async::EventLoop> loop,
                       std::string path)
    : thread_(std::move(thread)),
      loop_(std::move(loop)),
      disk_(std::make_shared<Disk>(Disk{.path = std::move(path)})) {}

JournalLog::JournalLog(std::shared_ptr<Executor> thread,
                       std::shared_ptr<async::EventLoop> loop,
                       JournalFile file)
    : JournalLog(std::move(thread), std::move(loop), std::string(file.path())) {
  appended_bytes_ = file.size();
  disk_->file = std::move(file);
}

void JournalLog::append(JournalRecord record) {
  if (is_discarded_) return;
  appended_bytes_ += record.content().size();
  queue_.push_back(std::move(record));
  write_next();
}

Future<void> JournalLog::sync() {
  if (is_discarded_ || (queue_.empty() && !is_writing_)) return Future<void>::ready({});
  // What was queued while a batch is being written goes with the next one.
  auto& waiting = queue_.empty() ? watching_ : waiting_;
  auto future = waiting.emplace_back(loop_).future();
  write_next();
  return future;
}

void JournalLog::write_next() {
  if (is_writing_ || queue_.empty()) return;
  is_writing_ = true;
  watching_ = std::exchange(waiting_, {});
  auto batch = std::make_shared<std::vector<JournalRecord>>(std::exchange(queue_, {}));
  auto writing = offload(*thread_, loop_, [disk = disk_, batch] { return disk->append(*batch); });
  (void)std::move(writing).then([self = shared_from_this(), batch](const Result<void>& outcome) {
    self->written(std::move(*batch), outcome);
  });
}

void JournalLog::written(std::vector<JournalRecord> batch, const Result<void>& outcome) {
  is_writing_ = false;
  is_failing_ = !outcome.ok();
  auto watching = std::exchange(watching_, {});
  if (is_failing_ && !is_discarded_) {
    queue_.insert(queue_.begin(),
                  std::make_move_iterator(batch.begin()),
                  std::make_move_iterator(batch.end()));
  }
  for (auto& promise : watching) promise.set(outcome);
  // After a failure the next one who asks tries again.
  if (!is_failing_ || !waiting_.empty()) write_next();
}

Future<void> JournalLog::rewrite(std::vector<JournalRecord> head, Keep keep) {
  appended_bytes_ = 0;
  return offload(
      *thread_, loop_, [disk = disk_, head = std::move(head), keep = std::move(keep)]() mutable {
        return disk->rewrite(head, keep);
      });
}

void JournalLog::discard(std::string folder) {
  is_discarded_ = true;
  queue_.clear();
  for (auto& promise : std::exchange(waiting_, {})) promise.set({});
  thread_->post([disk = disk_, folder = std::move(folder)] {
    disk->file.reset();
    std::error_code ignored;
    // First, so that no crash leaves a log that names what is not there any more.
    std::filesystem::remove(disk->path, ignored);
    std::filesystem::remove_all(folder, ignored);
  });
}

}  // namespace tinker::server
