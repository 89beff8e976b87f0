#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/scope.h"
#include "async/task.h"
#include "server/future_store.h"
#include "server/journal_log.h"
#include "server/records.h"
#include "tinker/engine.h"
#include "tinker/log.h"
#include "tinker/unique_function.h"

namespace tinker::server {

struct JournalOptions {
  std::filesystem::path folder = {};  ///< Of all journals.
  /// A run's state is written after so many steps, or when its log has so many bytes, or when the
  /// last one is so old; but writing it takes no more than the twentieth part of the time, unless
  /// the log gets too long.
  std::size_t snapshot_steps = 64;
  std::size_t snapshot_bytes = std::size_t{64} << 20U;
  std::chrono::nanoseconds snapshot_age = std::chrono::seconds(30);
  std::size_t most_bytes = std::size_t{1} << 30U;
};

/// Ends when all that was appended is on the disk. Where it cannot be written, fails with status
/// 507: clients try again for a while.
async::Task<> sync_now(std::shared_ptr<JournalLog> log);
/// What the client is told of a request that could not be written.
Error cannot_journal(Error why);

/// How a request came to its handler: from a client, or from the journal.
struct RequestSource {
  std::shared_ptr<const std::string> body = {};  ///< Where it will be written to a journal.
  std::string content_type = {};
  bool is_replay = false;
  std::string request_id = {};  ///< Of a replay, as the other members: what it was called,
  std::string note = {};        ///< what the server chose for it,
  std::shared_ptr<const Result<EncodedResult>> outcome = {};  ///< how it ended, if it is known.
  std::shared_ptr<struct RestoredRun> run = {};               ///< Of one that made a run.
};

/// What a training run needs to go on as it was after the server was killed: a log of the requests
/// that were accepted, in their order, and now and then the state behind one of them, which cuts
/// the log. Doing the rest of the log again gives the same bits, because the engine is
/// deterministic. In the run's folder are the file `log`, folders `snapshot-N` with states,
/// `sampler-N` with the weights of saves that have no name, and `loaded-ID` with the checkpoints
/// that requests of the log load. Loop thread only.
class RunJournal : public std::enable_shared_from_this<RunJournal> {
 public:
  struct Parts {
    std::shared_ptr<async::EventLoop> loop;
    std::shared_ptr<Executor> thread;
    std::filesystem::path folder;
    const FutureStore* futures;  ///< Has the results that the log shall keep.
    JournalOptions options = {};
    Logger logger = {};
  };
  /// A call that clears the gradients.
  struct Clearing {
    std::optional<std::string> snapshot = {};  ///< That is written behind it.
    std::uint64_t last_pass = 0;               ///< The last one before it that added gradients.
  };
  RunJournal(Parts parts, std::shared_ptr<JournalLog> log);

  // ---- the life of a request
  /// The first request, which makes the run.
  void create(JournalRecord record);
  void accept(const JournalRecord& record);
  /// The same for a record that is in the log already.
  void replay(const JournalRecord& record);
  void start(const std::string& request_id);
  /// It shall not be done again: from now on the journal has its result.
  void keep_result(const std::string& request_id, const Result<EncodedResult>& result);
  /// Its result is in the store of futures.
  void finish(const std::string& request_id);
  /// Requests of the log that have not been done again yet.
  [[nodiscard]] std::size_t to_replay() const noexcept { return replays_.size(); }

  [[nodiscard]] async::Task<> sync() const { return sync_now(log_); }
  /// The same, but goes on trying.
  async::Task<> sync_at_last();
  [[nodiscard]] bool is_failing() const noexcept { return log_->is_failing(); }
  /// Removes all. From then on nothing is written.
  void discard();

  // ---- states
  /// The state of a run that began as a checkpoint: when this ends, the run does not need that any
  /// more.
  async::Task<> write_first_state(LocalTrainer trainer);
  /// The trainer was given a pass that adds gradients, which are in no state: until a step has used
  /// them, the log is not cut. Yields what to tell `drop_gradients`.
  std::uint64_t add_gradients();
  /// That pass failed, and added none.
  void drop_gradients(std::uint64_t pass) { gradients_.erase(pass); }
  /// Right behind a call that clears the gradients, a step or a load: writes the state if it is
  /// time to. Yields what to tell `end_clearing`.
  Clearing begin_clearing(const LocalTrainer& trainer, const std::shared_ptr<async::Scope>& scope);
  /// Whether that call succeeded: if not, gradients are left and the state is of no use.
  void end_clearing(const Clearing& clearing, bool is_good);
  /// Behind any call: writes the state if it is time to and there are no gradients. Yields whether
  /// it began to.
  bool take_state(const LocalTrainer& trainer, const std::shared_ptr<async::Scope>& scope);
  /// The log is to be cut whatever it costs.
  [[nodiscard]] bool is_too_long() const noexcept;
  /// Writes the weights that the sampling session of this save draws from. The log is not cut
  /// before they are on the disk.
  void keep_sampler(const LocalTrainer& trainer,
                    std::shared_ptr<async::Scope> scope,
                    const UnnamedSave& save,
                    AdapterSnapshot weights);
  /// They are not needed any more: the next cut of the log removes them.
  void drop_sampler(std::int64_t number);
  /// Removes the files of a load unless its request was accepted; then they go when the log does
  /// not have it any more.
  void drop_unused(const std::string& loaded);
  /// What the log begins with.
  void found_snapshot(const JournalRecord& record);
  void found_sampler(const UnnamedSave& save) {
    samplers_[save.number] = {.seq_id = save.seq_id, .is_written = true};
  }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return parts_.folder; }
  [[nodiscard]] std::filesystem::path sampler_folder(std::int64_t number) const;

 private:
  struct Operation {
    std::int64_t number = JournalRecord::kNoNumber;
    std::string type = {};
    std::string payload_hash = {};
    std::string loaded = {};  // name of a folder
    bool is_started = false;
    bool is_finished = false;
    bool is_cut = false;  // the log has no more than its result
  };
  struct KeptSampler {
    std::optional<std::int64_t> seq_id = {};  // of the request that saved it
    bool is_written = false;
  };
  struct UnwrittenSampler {
    LocalTrainer trainer;
    std::shared_ptr<async::Scope> scope;
    std::int64_t number;
    AdapterSnapshot weights;
    bool has_failed = false;
  };
  struct Snapshot {
    std::string name;
    std::int64_t next;
    std::set<std::string> covered;  // requests that began before it
    bool is_written = false;
    bool is_good = false;
  };

  void note(const JournalRecord& record);
  [[nodiscard]] bool is_due() const;
  std::optional<std::string> begin_snapshot(const LocalTrainer& trainer,
                                            const std::shared_ptr<async::Scope>& scope);
  void settle(const std::optional<std::string>& snapshot, bool is_good);
  void snapshot_written(const std::string& name, const Result<void>& outcome);
  void write_sampler(UnwrittenSampler sampler);
  void sampler_written(UnwrittenSampler sampler, const Result<void>& outcome);
  /// Cuts the log if there is a state for it.
  void cut();
  std::vector<JournalRecord> head_of(const Snapshot& snapshot);
  void remove(std::vector<std::string> folders);
  void warn(std::string_view what, const Error& error) const;

  Parts parts_;
  std::shared_ptr<JournalLog> log_;
  JournalRecord created_ = {};
  std::unordered_map<std::string, Operation> operations_ = {};
  std::set<std::string> replays_ = {};
  std::map<std::int64_t, KeptSampler> samplers_ = {};
  std::optional<Snapshot> snapshot_ = {};   // that is being made
  std::string last_snapshot_ = {};          // that the log begins with
  std::vector<std::string> stale_ = {};     // folders that the log may name until it is cut again
  std::int64_t next_ = 1;                   // above the numbers of all that have started
  std::int64_t snapshots_ = 0;              // the number in the name of the last one
  std::set<std::uint64_t> gradients_ = {};  // passes whose gradients no step has used
  std::uint64_t last_pass_ = 0;
  std::size_t steps_ = 0;  // since the last snapshot
  async::TimePoint snapshot_at_;
  std::chrono::nanoseconds snapshot_cost_{};
};

/// A run of an earlier life, as its journal has it.
struct RestoredRun {
  std::shared_ptr<RunJournal> journal;
  std::optional<RunRecord> record = {};  ///< As the catalogue has it.
  std::optional<std::filesystem::path> snapshot = {};
  std::vector<UnnamedSave> samplers = {};
  std::int64_t next = 1;
  UniqueFunction<void()> build = {};  ///< Begins to load it; set by whoever makes it.
};

/// The folder in the journal that has the checkpoint which a request loads; empty for other ones.
/// Valid as long as the record.
std::string_view loaded_by(const JournalRecord& record);
/// Results as records, and back.
JournalRecord record_of(const std::string& request_id,
                        const std::shared_ptr<const Result<EncodedResult>>& result);
Result<EncodedResult> result_of(const JournalRecord& record);

}  // namespace tinker::server
