#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "client/chunks.h"
#include "client/state.h"
#include "session/future_poller.h"
#include "tinker/trace_context.h"
#include "tinker/types/forward_backward.h"

namespace tinker::client {

/// Whatever would make a batch fail on its way, so that it spends no id (R7.6, PROTOBUF 3).
Result<void> check_batch(const std::vector<Datum>& data, const OpenEnum<LossFn>& loss);

/// What to do with a batch.
struct BatchSpec {
  OpenEnum<LossFn> loss_fn = LossFn::cross_entropy;
  LossFnConfig config = {};
  bool forward_only = false;
  std::optional<TraceContext> trace = {};
};

/// The requests of one forward or forward_backward: made in the calling thread, sent by `drive`.
///
/// All of them are one turn. In parallel, the first leaves last (R7.7). The first failure ends
/// those that have not been sent; the others end as the server says.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  /// `range` has one id for each of `chunks`.
  Batch(std::shared_ptr<TrainingCore> core,
        std::vector<Datum> data,
        const std::vector<Chunk>& chunks,
        IdRange range,
        const BatchSpec& spec);

  /// The result of each request, once. Cancelling one cancels the batch.
  std::vector<Future<ForwardBackwardOutput>> futures();
  /// Sends everything and ends when every future has ended. `turn` is for the range given.
  static async::Task<> drive(std::shared_ptr<Batch> self, std::shared_ptr<Sequencer::Turn> turn);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::shared_ptr<session::SessionCore>& session() const noexcept {
    return core_->session();
  }

 private:
  struct Part {
    ForwardBackwardRequest request;
    Chunk chunk;
    Promise<ForwardBackwardOutput> promise;
    bool is_sent = false;
    bool is_ended = false;
  };

  static async::Task<> run(std::shared_ptr<Batch> self);
  static async::Task<> submit_all(std::shared_ptr<Batch> self);
  static async::Task<> submit(std::shared_ptr<Batch> self, std::size_t index);
  static async::Task<UntypedApiFuture> send(std::shared_ptr<Batch> self, std::size_t index);
  static async::Task<> poll(std::shared_ptr<Batch> self,
                            std::size_t index,
                            session::PollRequest request);
  void end(std::size_t index, Result<ForwardBackwardOutput> result);
  void end_unsent(const Error& reason);
  void end_all(const Error& reason);
  [[nodiscard]] std::string where(const Part& part) const;

  std::shared_ptr<TrainingCore> core_;
  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  std::vector<Part> parts_;
  std::string name_;
  std::string request_type_;
  std::optional<TraceContext> trace_;
  // Loop thread.
  std::shared_ptr<Sequencer::Turn> turn_;
  std::vector<Future<void>> polls_;
};

/// `Batch::drive`, then one result out of all (R7.10).
async::Task<ForwardBackwardOutput> run_batch(std::shared_ptr<Batch> batch,
                                             std::shared_ptr<Sequencer::Turn> turn);

}  // namespace tinker::client
