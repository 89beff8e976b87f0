#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "async/asio_loop.h"
#include "async/scope.h"
#include "async/thread_pool.h"
#include "base/bounded_map.h"
#include "http/server_exchange.h"
#include "server/access.h"
#include "server/disk.h"
#include "server/flags.h"
#include "server/future_store.h"
#include "server/imported_adapters.h"
#include "server/journals.h"
#include "server/live_run.h"
#include "server/model_registry.h"
#include "server/refused_keys.h"
#include "server/request_meter.h"
#include "server/samplers.h"
#include "server/sessions.h"
#include "server/shares.h"
#include "server/uploads.h"
#include "server/usage.h"
#include "server/wait_list.h"
#include "tinker/local_server_limits.h"
#include "tinker/log.h"
#include "tinker/rng.h"
#include "tinker/secret.h"
#include "tinker/types/seed.h"

namespace tinker::server {

struct ServiceOptions {
  Flags flags = {};
  std::chrono::nanoseconds session_timeout = std::chrono::minutes(5);
  LocalServerLimits limits = {};
  bool is_loopback = true;         ///< It listens there; a proxy may lead others to it.
  bool is_local = true;            ///< Nobody but this machine reaches it.
  std::string public_url = {};     ///< What signed links begin with; empty: as the request says.
  std::string public_origin = {};  ///< Its scheme, host and port.
  std::string unix_url = {};       ///< The base URL of the Unix socket that it listens at.
  Logger logger = {};
};

/// An adapter that is in memory to sample from.
struct CachedAdapter {
  AdapterSnapshot weights = {};
  MemoryHold hold = {};
};

/// What the server is: its parts, and what more than one group of handlers needs of them. Loop
/// thread only.
class Service : public std::enable_shared_from_this<Service> {
 public:
  struct Parts {
    std::shared_ptr<async::AsioLoop> loop;
    std::shared_ptr<async::ThreadPool> workers;
    std::unique_ptr<Store> store;
    std::unique_ptr<ModelRegistry> models;
    ImportedAdapters imported = {};
    Access access;
    ServiceOptions options;
    std::unique_ptr<Journals> journals = {};  ///< Null: runs do not survive the server.
  };
  explicit Service(Parts parts);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  /// Begins what is done now and then: expiry, sweeping, writing counts and times.
  void start();
  /// From now on no new work is taken; what runs goes on, and what waits for other requests fails.
  void begin_draining(const Error& reason);
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }
  /// Ends all work with `reason`; in a server that keeps journals, without telling its clients.
  void stop(const Error& reason);
  [[nodiscard]] bool is_stopped() const noexcept { return is_stopped_; }

  [[nodiscard]] const std::shared_ptr<async::AsioLoop>& loop() const noexcept { return loop_; }
  [[nodiscard]] const ServiceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }
  [[nodiscard]] Instant now() const;
  /// 16 random hexadecimal digits.
  std::string random_id();
  std::uint64_t random_number() { return rng_.next(); }
  /// Runs `f()` on a worker: for what would hold the loop up.
  template <typename F>
  auto work(F f) {
    return offload(*workers_, loop_, std::move(f));
  }

  /// Runs `task` in `scope` now and calls `done(Late<T>)` at its end. The server's end waits for
  /// it.
  template <typename T, typename Done>
  void spawn(std::shared_ptr<async::Scope> scope, async::Task<T> task, Done done) {
    ++tasks_;
    async::run_detached(
        loop_,
        std::move(scope),
        std::move(task),
        [self = shared_from_this(), done = std::move(done)](detail::Late<T> result) mutable {
          --self->tasks_;
          done(std::move(result));
        });
  }
  /// The same for a task that goes on when the client goes away.
  template <typename T>
  Future<T> apart(async::Task<T> task) {
    Promise<T> promise(loop_);
    auto future = promise.future();
    spawn(scope_, std::move(task), [promise = std::move(promise)](detail::Late<T> result) mutable {
      promise.set(*std::move(result));
    });
    return future;
  }
  /// Tasks that have not ended.
  [[nodiscard]] std::size_t tasks() const noexcept { return tasks_; }

  // ---- runs ----
  /// A live run; fails with `not_found` when it is not the caller's or not in memory.
  [[nodiscard]] Result<std::shared_ptr<LiveRun>> find_run(const std::string& run_id,
                                                          const std::string& owner);
  void add_run(std::shared_ptr<LiveRun> run);
  /// It is over: its journal goes, too.
  void remove_run(const std::string& run_id);
  [[nodiscard]] std::size_t live_runs() const noexcept { return runs_.size(); }
  /// Requests of all runs that wait for those with lower numbers.
  [[nodiscard]] std::size_t waiting_requests() const noexcept;

  // ---- what handlers share ----
  /// A sampling session; one of an earlier life of the server comes back if its weights are on the
  /// disk.
  async::Task<std::shared_ptr<Sampler>> find_sampler(std::string sampler_id, std::string owner);
  /// Enters a sampling session for weights of `run` that have no name. Of those a run keeps the
  /// latest few only, and its session fewer where memory is short: nobody says when they are not
  /// needed any more. Fails with `invalid_argument` where there is no memory for them alone.
  Result<std::shared_ptr<Sampler>> add_ephemeral(const std::shared_ptr<Session>& session,
                                                 const std::shared_ptr<LiveRun>& run,
                                                 UnnamedSave save,
                                                 AdapterSnapshot weights);
  /// What a sampling session draws from. The latest few of a session have its files even when the
  /// checkpoint was replaced or deleted.
  void set_checkpoint(const std::shared_ptr<Sampler>& sampler, CheckpointRecord checkpoint) const;
  /// Tells the client that polls for these samples which of them an earlier life has lost.
  void announce_lost_samples(const SamplingSessionFuturesTarget& target, const std::string& owner);
  /// For a sample that names none: random, but the same when the request comes again, also in
  /// another life of the server.
  [[nodiscard]] Result<Seed> seed_of(const std::string& request_id,
                                     const std::string& payload_hash) const;
  /// Marks a sampling session as one of an earlier life.
  void revive(Sampler& sampler) const;
  /// A checkpoint that the caller may read: his own, a public or an imported one. The metadata of
  /// other owners' checkpoints is private and left out.
  async::Task<CheckpointRecord> readable_checkpoint(std::string path, std::string owner);
  /// The same, also of the account whose credential is given.
  async::Task<CheckpointRecord> readable_checkpoint(std::string path,
                                                    std::string owner,
                                                    Secret token);
  /// A checkpoint of the caller's.
  async::Task<CheckpointRecord> own_checkpoint(TinkerPath path, std::string owner);
  /// Its adapter, from the cache or from the disk; who wants one that is being loaded joins the
  /// load, which goes on when this is cancelled.
  async::Task<AdapterSnapshot> adapter_of(CheckpointRecord record,
                                          std::shared_ptr<LoadedModel> model);
  /// Whether the owner may send `bytes` more for a training run. Fails with `rate_limited`.
  [[nodiscard]] Result<void> check_room(const std::string& owner, std::size_t bytes) const;
  /// Counts `bytes` of a request's body as accepted while what this yields lives.
  std::shared_ptr<const void> charge(const std::string& owner, std::size_t bytes);
  /// Writes what was counted to the disk; what cannot be written is counted again.
  Future<void> flush_usage();
  /// Adds what was done for a run to its owner's usage.
  void count(const RunRecord& run, UsageRecord::Kind kind, std::int64_t count);
  /// Writes it into the audit log and, for whoever watches the server, into its log.
  void audit(const Caller& caller, std::string event, StringMap details);
  /// Adds a checkpoint that was made in this life of the server to the usage and to the log.
  void note_save(const RunRecord& run, const CheckpointRecord& checkpoint);
  /// A line of the log.
  void note_refused_key(const http::Peer& peer);

  Access access;
  Disk disk;
  std::unique_ptr<ModelRegistry> models;
  ImportedAdapters imported;
  FutureStore futures;
  Sessions sessions;
  Samplers samplers;
  base::BoundedMap<std::string, CachedAdapter>
      adapters;  ///< Of checkpoints, by folder; the one used last goes last.
  base::BoundedMap<std::string, std::string> created_sessions{
      10'000};  ///< Ids by owner and idempotency key.
  base::BoundedMap<std::string, std::string> unloaded_models{
      10'000};  ///< Futures by owner and model.
  Uploads uploads;
  UsageMeter usage;
  std::unique_ptr<Journals> journals;  ///< Null: the server keeps none.
  WaitList caught_up = {};             ///< Woken when a request of an earlier life was done again.
  RequestMeter requests;
  Shares incoming_bytes = {};  ///< Of bodies that are not answered.
  const async::TimePoint started_at;

 private:
  void drop_ephemeral(Session& session, std::vector<UnnamedSave>::iterator save);
  async::Task<AdapterSnapshot> load_adapter(CheckpointRecord record,
                                            std::shared_ptr<LoadedModel> model);
  [[nodiscard]] bool is_catching_up(const std::string& sampler_id) const;
  void end_session(Session& session, const Error& reason);
  /// A task that nobody waits for; its failure is a line in the log.
  void run_beside(async::Task<> task, const char* what);
  void every(std::chrono::nanoseconds period, void (Service::*what)());
  void expire_sessions();
  void sweep_checkpoints();
  void forget_history();
  void write_usage();
  void write_last_requests();
  void write_refused_keys();

  std::shared_ptr<async::AsioLoop> loop_;
  std::shared_ptr<async::ThreadPool> workers_;
  ServiceOptions options_;
  std::shared_ptr<async::Scope> scope_;
  std::unordered_map<std::string, std::shared_ptr<LiveRun>> runs_ = {};
  /// Who waits for the adapters that are being loaded, by folder.
  std::unordered_map<std::string, std::vector<Promise<AdapterSnapshot>>> loading_adapters_ = {};
  Rng rng_ = Rng::from_entropy();
  RefusedKeys refused_keys_ = {};
  Shares accepted_bytes_ = {};  // of training data
  std::size_t tasks_ = 0;
  bool is_draining_ = false;
  bool is_stopped_ = false;
};

}  // namespace tinker::server
