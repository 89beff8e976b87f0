#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "async/scope.h"
#include "async/task.h"
#include "server/future_store.h"
#include "server/model_registry.h"
#include "server/records.h"
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
  };

  LiveRun(const std::shared_ptr<Service>& service,
          RunRecord record,
          std::shared_ptr<async::Scope> parent);

  /// Yields the id to poll for. The future is open when this returns.
  Result<std::string> submit(const std::shared_ptr<Service>& service, Operation operation);
  /// The model is there; what waited for it starts.
  void open(std::shared_ptr<LoadedModel> model, LocalTrainer trainer);
  /// There will be none: what waits, and what comes, fails with `reason`.
  void fail(const Error& reason);
  /// No operation is accepted any more; those that run go on. The model is let go after them.
  void close(const Error& reason);

  [[nodiscard]] const LocalTrainer& trainer() const noexcept { return *trainer_; }
  [[nodiscard]] const std::shared_ptr<LoadedModel>& model() const noexcept { return model_; }
  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }

  RunRecord record;

 private:
  void start(const std::shared_ptr<Service>& service, const std::string& request_id, Work work);

  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  Sequencer sequencer_;
  std::shared_ptr<LoadedModel> model_ = {};
  std::optional<LocalTrainer> trainer_ = {};
  std::optional<Error> failure_ = {};
  std::deque<UniqueFunction<void()>> waiting_ = {};  // for the model
  std::uint64_t unnumbered_ = 0;
};

}  // namespace tinker::server
