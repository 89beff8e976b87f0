#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "async/thread_pool.h"
#include "server/run_journal.h"
#include "server/sample_numbers.h"

namespace tinker::server {

/// The journals of a server: below its folder one for each session, in it the file `session` with
/// the session's losses and the numbers of its samples, and one folder for each run. Loop thread
/// only.
class Journals {
 public:
  Journals(std::shared_ptr<async::EventLoop> loop, JournalOptions options, Logger logger);

  std::shared_ptr<RunJournal> create(const std::string& session_id,
                                     const std::string& run_id,
                                     const FutureStore& futures);
  /// Goes on with one that is there.
  std::shared_ptr<RunJournal> resume(const std::filesystem::path& folder,
                                     JournalFile file,
                                     const FutureStore& futures);
  std::shared_ptr<JournalLog> session_log(const std::string& session_id);
  void resume_session(const std::string& session_id, JournalFile file);
  /// Removes all of a session that is over.
  void forget(const std::string& session_id);
  /// Waits for all that is being written. The loop must have stopped: nothing may come after that.
  void close() { thread_->wait_idle(); }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return options_.folder; }

  SampleNumbers sample_numbers;

 private:
  [[nodiscard]] std::shared_ptr<RunJournal> make(std::filesystem::path folder,
                                                 std::shared_ptr<JournalLog> log,
                                                 const FutureStore& futures);

  std::shared_ptr<async::EventLoop> loop_;
  JournalOptions options_;
  Logger logger_;
  std::shared_ptr<async::ThreadPool> thread_ =
      std::make_shared<async::ThreadPool>("tinker-journal", 1);
  std::unordered_map<std::string, std::shared_ptr<JournalLog>> session_logs_ = {};  // by session
};

}  // namespace tinker::server
