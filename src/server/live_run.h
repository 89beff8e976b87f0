#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/scope.h"
#include "async/task.h"
#include "server/future_store.h"
#include "server/model_registry.h"
#include "server/records.h"
#include "server/run_journal.h"
#include "server/sequencer.h"
#include "tinker/engine.h"
#include "tinker/unique_function.h"

namespace tinker::server {

class Service;

/// A training run with its model in memory: what is asked of it starts in the order of its numbers,
/// once the model is there. Loop thread only.
class LiveRun : public std::enable_shared_from_this<LiveRun> {
 public:
  /// Makes the task of an operation when its turn has come. What of it must happen in order happens
  /// before its first wait.
  using Work = UniqueFunction<async::Task<EncodedResult>(std::shared_ptr<LiveRun>)>;

  struct Operation {
    Sequencer::Kind kind = Sequencer::Kind::barrier;
    std::optional<std::int64_t> seq_id = {};
    std::string type = {};
    std::string payload_hash = {};
    Work work = {};
    RequestSource source = {};
    std::string note = {};  ///< What the server chose, for the journal.
    bool is_final = false;  ///< It has effects on the disk: not to be done again after a crash.
    /// Called with the id when the request has its place in the order, before it is on the disk.
    UniqueFunction<void(const std::string& request_id)> accepted = {};
  };
  /// The work of a request whose content is refused: the request uses up its number, and its future
  /// fails with `why` (PROTOCOL 10.17).
  static Work refusal(Error why);

  /// Of a server that keeps journals.
  struct Journalled {
    std::shared_ptr<RunJournal> journal = {};
    std::int64_t next = 1;     ///< Number of the first request.
    bool is_restored = false;  ///< An earlier life of the server made the run.
  };

  LiveRun(const std::shared_ptr<Service>& service,
          RunRecord record,
          std::shared_ptr<async::Scope> parent,
          Journalled journalled);

  /// Yields the id to poll for. The future is open and the request in the journal, on the disk,
  /// when this ends; its place in the order is that of this call.
  async::Task<std::string> submit(std::shared_ptr<Service> service, Operation operation);
  /// A request of an earlier life that ended like this, and is in no state and no log any more.
  void add_result(const std::shared_ptr<Service>& service, const JournalRecord& entry);
  /// The model is there; what waited for it starts.
  void open(std::shared_ptr<LoadedModel> model, LocalTrainer trainer);
  /// There will be none: what waits, and what comes, fails with `reason`.
  void fail(const Error& reason);
  /// No operation is accepted any more; those that run go on. The model is let go after them.
  void close(const Error& reason);

  /// All that was asked of it is in the journal, on the disk; goes on trying where it is full.
  async::Task<> recorded();
  /// For the journal: a pass that adds gradients was given to the trainer; `drop_gradients` wants
  /// to know if it failed.
  std::uint64_t add_gradients();
  void drop_gradients(std::uint64_t pass);
  /// For the journal, right behind a step or a load; `end_clearing` then wants to know how it went.
  RunJournal::Clearing begin_clearing();
  void end_clearing(const RunJournal::Clearing& clearing, bool is_good);
  /// What the sampling session of this save draws from is to survive the server.
  void keep_sampler(const UnnamedSave& save, AdapterSnapshot weights);
  void drop_sampler(std::int64_t number);
  /// Removes the journal: the run is over.
  void forget();
  /// What an earlier life had accepted has not all been done again.
  [[nodiscard]] bool is_catching_up() const noexcept {
    return is_restored_ && !failure_ && (!trainer_ || journal_->to_replay() > 0);
  }
  [[nodiscard]] const std::shared_ptr<RunJournal>& journal() const noexcept { return journal_; }

  /// Why one of its operations, which has no result yet, waits.
  [[nodiscard]] StillPending why_pending(std::string_view request_id,
                                         const FutureStore& futures) const;
  /// Operations that wait for those with lower numbers.
  [[nodiscard]] std::size_t waiting() const noexcept { return sequencer_.waiting(); }
  /// Whether a request with this id, of which nothing is known, may have been done in an earlier
  /// life: it is in no log then.
  [[nodiscard]] bool may_have_done(std::string_view request_id) const noexcept;
  /// Whether the number is that of a request that was accepted, or one that requests wait for.
  [[nodiscard]] bool expects(std::int64_t seq_id) const { return sequencer_.is_expected(seq_id); }
  /// Requests that wait for those with lower numbers start now.
  void stop_waiting() { sequencer_.stop_waiting(); }
  [[nodiscard]] const LocalTrainer& trainer() const noexcept { return *trainer_; }
  [[nodiscard]] const std::shared_ptr<LoadedModel>& model() const noexcept { return model_; }
  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }

  RunRecord record;
  Instant stored_request_at = {};  ///< `record.last_request_at` as it was last written.

 private:
  struct Start {
    std::string request_id;
    Work work;
    bool is_known;  // the journal says how it ended
    bool is_final;
  };
  Result<Sequencer::Admission> admit(const std::shared_ptr<Service>& service, Operation& operation);
  void start(const std::shared_ptr<Service>& service, Start what);
  void finish(Service& service, const std::string& request_id, Result<EncodedResult> result);
  void take_state();

  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  Sequencer sequencer_;
  std::int64_t first_;  // the number with which this life began
  bool is_restored_;
  std::shared_ptr<RunJournal> journal_;  // null: the server keeps none
  std::shared_ptr<LoadedModel> model_ = {};
  std::optional<LocalTrainer> trainer_ = {};
  std::optional<Error> failure_ = {};
  std::deque<UniqueFunction<void()>> waiting_ = {};  // for the model
  std::deque<std::string> started_ = {};             // ids of those that have not ended
};

}  // namespace tinker::server
