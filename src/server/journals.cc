#include "server/journals.h"

#include <utility>

namespace tinker::server {

namespace {

constexpr std::string_view kLog = "log";
constexpr std::string_view kSession = "session";

/// "<session>:train:3" as "train-3".
std::string folder_name(const std::string& run_id) {
  return "train-" + run_id.substr(run_id.rfind(':') + 1);
}

}  // namespace

Journals::Journals(std::shared_ptr<async::EventLoop> loop, JournalOptions options, Logger logger)
    : loop_(std::move(loop)), options_(std::move(options)), logger_(std::move(logger)) {}

std::shared_ptr<RunJournal> Journals::make(std::filesystem::path folder,
                                           std::shared_ptr<JournalLog> log,
                                           const FutureStore& futures) {
  return std::make_shared<RunJournal>(RunJournal::Parts{.loop = loop_,
                                                        .thread = thread_,
                                                        .folder = std::move(folder),
                                                        .futures = &futures,
                                                        .options = options_,
                                                        .logger = logger_},
                                      std::move(log));
}

std::shared_ptr<RunJournal> Journals::create(const std::string& session_id,
                                             const std::string& run_id,
                                             const FutureStore& futures) {
  auto folder = options_.folder / session_id / folder_name(run_id);
  auto log = std::make_shared<JournalLog>(thread_, loop_, (folder / kLog).string());
  return make(std::move(folder), std::move(log), futures);
}

std::shared_ptr<RunJournal> Journals::resume(const std::filesystem::path& folder,
                                             JournalFile file,
                                             const FutureStore& futures) {
  return make(folder, std::make_shared<JournalLog>(thread_, loop_, std::move(file)), futures);
}

std::shared_ptr<JournalLog> Journals::session_log(const std::string& session_id) {
  auto& log = session_logs_[session_id];
  if (!log) {
    const auto path = options_.folder / session_id / kSession;
    log = std::make_shared<JournalLog>(thread_, loop_, path.string());
  }
  return log;
}

void Journals::resume_session(const std::string& session_id, JournalFile file) {
  session_logs_[session_id] = std::make_shared<JournalLog>(thread_, loop_, std::move(file));
}

void Journals::forget(const std::string& session_id) {
  session_log(session_id)->discard((options_.folder / session_id).string());
  session_logs_.erase(session_id);
  sample_numbers.forget(session_id);
}

}  // namespace tinker::server
