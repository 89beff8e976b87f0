#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/call_options.h"
#include "tinker/future.h"
#include "tinker/loss_handle.h"
#include "tinker/losses.h"
#include "tinker/sampling_client.h"
#include "tinker/secret.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/metadata.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/weights.h"

namespace tinker {

namespace client {
struct TrainingState;
}

/// How to save a checkpoint.
struct SaveOptions {
  /// When the server may delete it, counted from the save. Default: never.
  std::optional<std::int64_t> ttl_seconds = {};
  /// Replace one of that name, its metadata included. `save_state` only. Default: that is an error.
  bool overwrite = false;
  std::optional<StringMap> user_metadata = {};
};

/// How to export weights for use elsewhere.
struct ExternalSaveOptions {
  std::optional<std::int64_t> ttl_seconds = {};  ///< Default: never deleted.
  /// Who can read the files: up to 10 `age1…` keys or SSH public keys. Default: not encrypted.
  std::optional<std::vector<std::string>> age_encryption_recipients = {};
};

/// How to load a checkpoint.
struct LoadOptions {
  /// A credential of the account that owns it. Default: that of the client.
  std::optional<Secret> weights_access_token = {};
};

/// One request's part of a batch: data [first, first + count).
struct BatchPart {
  std::size_t first = 0;
  std::size_t count = 0;
  Future<ForwardBackwardOutput> output;
};

/// The two futures of one step, both under way.
struct TrainStep {
  Future<ForwardBackwardOutput> forward_backward;
  Future<OptimStepResponse> optim_step;
};

/// Trains one model.
///
///     auto gradients = trainer.forward_backward(batch, LossFn::cross_entropy);
///     auto update = trainer.optim_step({.learning_rate = 1e-4});  // queued behind, both in flight
///     std::cout << gradients.get().value().loss().value();
///     update.get().value();
///
/// Requests reach the server in the order of the calls; do not wait for one before you make the
/// next. A bad argument fails its call before anything is sent. A request that fails for good ends
/// the ones behind it that have not been sent with `ErrorCode::predecessor_failed`; later calls go
/// out normally. Copies are the same client.
///
/// Thread-safe; from several threads the order is that of the calls as they happen.
class TrainingClient {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  /// This client with other options for its calls, e.g. a deadline.
  [[nodiscard]] TrainingClient with(CallOptions options) const;

  /// Computes losses and logprobs without gradients.
  Future<ForwardBackwardOutput> forward(std::vector<Datum> data, OpenEnum<LossFn> loss_fn) const;
  Future<ForwardBackwardOutput> forward(std::vector<Datum> data,
                                        OpenEnum<LossFn> loss_fn,
                                        LossFnConfig config) const;
  /// Adds the gradients of a batch to those the model holds. A large batch is sent in parts; the
  /// result is that of the whole.
  Future<ForwardBackwardOutput> forward_backward(std::vector<Datum> data,
                                                 OpenEnum<LossFn> loss_fn) const;
  Future<ForwardBackwardOutput> forward_backward(std::vector<Datum> data,
                                                 OpenEnum<LossFn> loss_fn,
                                                 LossFnConfig config) const;
  /// As `forward_backward`, with a future for each part, to be used as they arrive. Cancelling one
  /// cancels all.
  Result<std::vector<BatchPart>> forward_backward_parts(std::vector<Datum> data,
                                                        OpenEnum<LossFn> loss_fn,
                                                        LossFnConfig config) const;

  /// `forward_backward` with a loss of your own: a formula, or a function with explicit gradients.
  /// The client makes a forward pass for the logprobs, computes the loss and its slopes from them,
  /// and sends those with a second pass. The function runs on the callback thread. Metric
  /// "loss:sum" is the loss, "surrogate_loss:sum" the server's own of the second pass.
  Future<ForwardBackwardOutput> forward_backward_custom(std::vector<Datum> data,
                                                        loss::BatchFunction function) const;
  Future<ForwardBackwardOutput> forward_backward_custom(std::vector<Datum> data,
                                                        const loss::Formula& formula) const;
  /// The same, in one pass where the server runs the loss.
  Future<ForwardBackwardOutput> forward_backward_custom(std::vector<Datum> data,
                                                        const LossHandle& handle) const;

  /// Updates the weights with the gradients and clears those.
  Future<OptimStepResponse> optim_step(AdamParams params) const;
  Future<OptimStepResponse> optim_step(OptimParams params) const;
  /// `forward_backward` and `optim_step`, both submitted before either is awaited.
  TrainStep train_step(std::vector<Datum> data, OpenEnum<LossFn> loss_fn, AdamParams params) const;
  TrainStep train_step(std::vector<Datum> data,
                       OpenEnum<LossFn> loss_fn,
                       LossFnConfig config,
                       OptimParams params) const;

  /// Saves weights and optimizer state.
  Future<SaveWeightsResponse> save_state(std::string name) const;
  Future<SaveWeightsResponse> save_state(std::string name, SaveOptions options) const;
  /// Loads weights into this model; the optimizer starts anew, or goes on with its state.
  /// A new client from the checkpoint is usually what you want: see `ServiceClient`.
  Future<LoadWeightsResponse> load_state(std::string path) const;
  Future<LoadWeightsResponse> load_state(std::string path, LoadOptions options) const;
  Future<LoadWeightsResponse> load_state_with_optimizer(std::string path) const;
  Future<LoadWeightsResponse> load_state_with_optimizer(std::string path,
                                                        LoadOptions options) const;
  /// Saves weights that samplers can use.
  Future<SaveWeightsForSamplerResponse> save_weights_for_sampler(std::string name) const;
  Future<SaveWeightsForSamplerResponse> save_weights_for_sampler(std::string name,
                                                                 SaveOptions options) const;
  /// Exports the weights in Hugging Face layout.
  Future<SaveWeightsExternalResponse> save_weights_external(std::string name) const;
  Future<SaveWeightsExternalResponse> save_weights_external(std::string name,
                                                            ExternalSaveOptions options) const;

  /// A sampler for the weights as they are now, without a checkpoint.
  Future<SamplingClient> save_weights_and_get_sampling_client() const;
  Future<SamplingClient> save_weights_and_get_sampling_client(SamplingClientOptions options) const;
  /// A sampler for saved weights.
  Future<SamplingClient> create_sampling_client(std::string model_path) const;
  Future<SamplingClient> create_sampling_client(std::string model_path,
                                                SamplingClientOptions options) const;

  Future<GetInfoResponse> get_info() const;
  /// The tokenizer that the server names: a folder or file, if the server runs on this machine and
  /// says so, else a model's id, from the hub that the environment names or from `hub`.
  Future<Tokenizer> get_tokenizer() const;
  Future<Tokenizer> get_tokenizer(Hub hub) const;
  [[nodiscard]] const std::string& model_id() const noexcept;
  [[nodiscard]] std::string get_console_url() const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit TrainingClient(std::shared_ptr<const client::TrainingState> state)
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<const client::TrainingState> state_;
  CallOptions options_ = {};
};

}  // namespace tinker
