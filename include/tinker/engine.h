#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tinker/call_options.h"
#include "tinker/executor.h"
#include "tinker/future.h"
#include "tinker/loss.h"
#include "tinker/result.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/sample.h"

/// A model on this machine, without a server: LoRA training and sampling with the calls and the
/// types of the clients. One thread computes; calls from any thread are queued for it without
/// waiting and end in a `Future`. Those without `_async` in their name wait for it; inside a
/// callback of the library they do nothing and fail with `invalid_argument`.
namespace tinker {

namespace engine {
class Adapter;
class Sampler;
class EngineCore;
struct EngineCall;
struct TrainerState;
}  // namespace engine

/// Number format of the matrix products. Adapters, their gradients and all sums are float32 in
/// both.
enum class EnginePrecision {
  f32,   ///< The reference: the same bits with every instruction set.
  bf16,  ///< Half the memory, and faster where the machine has instructions for it.
};

struct EngineOptions {
  EnginePrecision precision = EnginePrecision::bf16;
  std::size_t threads = 0;  ///< 0: one for each processor.
  /// "scalar", "avx2", "avx512", "avx512bf16" or "amx"; absent: TINKER_CPU, else the fastest one.
  std::optional<std::string> cpu = {};
  /// For keys and values of sequences that are being sampled, and of beginnings that may come
  /// again.
  std::size_t cache_bytes = std::size_t{1} << 30U;
  /// What a training call may take besides the weights; 0: what the machine has left. A call that
  /// would take more is refused before it begins.
  std::size_t training_bytes = 0;
  /// The bytes of a token, for stop strings; without it requests that have some are refused. Called
  /// on the thread that computes, so it must not wait for anything.
  std::function<std::string(std::int32_t token)> token_bytes = {};
  /// Shares of the engine's time while both training and sampling want it. Positive.
  double training_weight = 1;
  double sampling_weight = 1;
  /// Where continuations of futures run. Default: a thread of the engine's own.
  std::shared_ptr<Executor> callbacks = {};
};

/// One step of Muon, which is ours: the hosted service does not have it, and `dimuon`, which it
/// has, is not defined publicly. Each factor of the adapter moves by an orthogonal matrix,
/// Nesterov's momentum made so by five Newton-Schulz steps, whose root mean square is 0.2 times the
/// learning rate. That of AdamW's steps is about the same, so learning rates of AdamW fit.
struct MuonParams {
  double learning_rate = 1e-4;
  double momentum = 0.95;       ///< In [0, 1).
  double weight_decay = 0.0;    ///< Decoupled.
  double grad_clip_norm = 0.0;  ///< Global norm, before the momentum; 0 is no clipping.

  friend bool operator==(const MuonParams&, const MuonParams&) = default;
};

/// What a checkpoint holds, or what of it is loaded.
enum class CheckpointParts {
  weights,                ///< The adapter: all that sampling needs, and what PEFT reads.
  weights_and_optimizer,  ///< Also momenta and step: training goes on as if it had never stopped.
};

struct ExportOptions {
  /// What the weights are written in; absent: what the engine computes in.
  std::optional<EnginePrecision> precision = {};
};

/// What an engine has to do. Counts of a moment: they may be of slightly different ones.
struct EngineQueue {
  std::size_t training_runs = 0;      ///< Trainers that have calls.
  std::size_t training_calls = 0;     ///< Of all trainers, accepted and not ended.
  std::size_t samples = 0;            ///< Accepted and not ended.
  std::size_t samples_computing = 0;  ///< Those of them that had a part of the last batch.
  std::size_t cache_bytes = 0;        ///< Keys and values of samples that are under way.
  std::size_t training_bytes = 0;     ///< What training calls took and keep for the next ones.
};

/// How far a sample has come, for whoever waits for it. Thread-safe.
class SampleProgress {
 public:
  enum class Stage : std::uint8_t {
    queued,     ///< Nothing of it is computed.
    computing,  ///< It had a part of the last batch that had room for it.
    no_room,    ///< Others have the room in the cache that it needs to go on.
  };
  [[nodiscard]] Stage stage() const noexcept { return stage_.load(std::memory_order_relaxed); }

 private:
  friend class engine::Sampler;
  void set(Stage stage) noexcept {
    if (stage_.load(std::memory_order_relaxed) != stage)
      stage_.store(stage, std::memory_order_relaxed);
  }
  std::atomic<Stage> stage_ = Stage::queued;
};

/// The parameters of an adapter at one time, to sample from. A handle: copies share them.
///
/// Immutable.
class AdapterSnapshot {
 public:
  /// The base model.
  AdapterSnapshot() = default;
  /// What its parameters take, with those that a run in training may still share; 0 for the base
  /// model.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  friend class Engine;
  friend class LocalTrainer;
  explicit AdapterSnapshot(std::shared_ptr<const engine::Adapter> adapter)
      : adapter_(std::move(adapter)) {}
  std::shared_ptr<const engine::Adapter> adapter_;
};

/// An adapter in training. A handle: copies share it. Thread-safe: its calls are done in the order
/// in which they were made. Calls of different trainers, and samples, take turns in between; that
/// changes no bit of any result.
class LocalTrainer {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures are so by themselves.
  /// This trainer with other options for its calls: a deadline, a stop token. A call that is
  /// stopped or late ends between two steps of the engine, which take some hundredths of a second,
  /// and leaves gradients, adapter and optimizer as they were. A step of the optimizer that has
  /// begun to change them goes on to its end, and so does a checkpoint that is being written.
  /// `CallOptions::trace` has no meaning here.
  [[nodiscard]] LocalTrainer with(CallOptions options) const;
  /// This trainer with calls that are done in the share of this tenant. While several tenants want
  /// the engine, none gets less than another.
  [[nodiscard]] LocalTrainer for_tenant(std::string tenant) const;

  /// Logprobs and loss of the data, with no change to anything.
  [[nodiscard]] Result<ForwardBackwardOutput> forward(std::span<const Datum> data,
                                                      LossFn loss,
                                                      const LossFnConfig& config = {}) const;
  /// With a loss of one's own, evaluated beside the model.
  [[nodiscard]] Result<ForwardBackwardOutput> forward(std::span<const Datum> data,
                                                      const loss::Formula& formula) const;
  Future<ForwardBackwardOutput> forward_async(std::vector<Datum> data, LossFn loss) const;
  Future<ForwardBackwardOutput> forward_async(std::vector<Datum> data,
                                              LossFn loss,
                                              LossFnConfig config) const;
  Future<ForwardBackwardOutput> forward_async(std::vector<Datum> data, loss::Formula formula) const;

  /// The same, and the gradients, which are added up until the next `optim_step`. If it fails, they
  /// are as they were. It fails if they would not be finite.
  Result<ForwardBackwardOutput> forward_backward(std::span<const Datum> data,
                                                 LossFn loss,
                                                 const LossFnConfig& config = {}) const;
  Result<ForwardBackwardOutput> forward_backward(std::span<const Datum> data,
                                                 const loss::Formula& formula) const;
  Future<ForwardBackwardOutput> forward_backward_async(std::vector<Datum> data, LossFn loss) const;
  Future<ForwardBackwardOutput> forward_backward_async(std::vector<Datum> data,
                                                       LossFn loss,
                                                       LossFnConfig config) const;
  Future<ForwardBackwardOutput> forward_backward_async(std::vector<Datum> data,
                                                       loss::Formula formula) const;

  /// Metrics: "unclipped_grad_l2:mean". Fails for gradients that are not finite and for settings
  /// that make no sense as float32, such as an `eps` of 0, and leaves everything as it was.
  Result<OptimStepResponse> optim_step(const AdamParams& params) const;
  Future<OptimStepResponse> optim_step_async(const AdamParams& params) const;
  /// The same by another optimizer: `optim_step(MuonParams{.learning_rate = 3e-4})`. Once a run has
  /// taken a step with one of them, the other is refused: `load` without the optimizer's state
  /// begins anew. (A template, so that `optim_step({...})` means Adam.)
  Result<OptimStepResponse> optim_step(const std::same_as<MuonParams> auto& params) const {
    return wait_for_muon_step(params);
  }
  Future<OptimStepResponse> optim_step_async(const std::same_as<MuonParams> auto& params) const {
    return muon_step(params);
  }
  /// What a request asks for. Fails with `invalid_argument` for `dimuon` and for what there is not.
  Result<OptimStepResponse> optim_step(const std::same_as<OptimParams> auto& params) const {
    return wait_for_requested_step(params);
  }
  Future<OptimStepResponse> optim_step_async(const std::same_as<OptimParams> auto& params) const {
    return requested_step(params);
  }
  /// Forgets the gradients that no step has used.
  Result<void> discard_gradients() const;
  Future<void> discard_gradients_async() const;

  /// Bytes that a call over these data takes at most, besides the weights: what
  /// `EngineOptions::training_bytes` limits. It grows with the tokens that go through the layers
  /// together (2048, or a longer sequence alone) and, slightly, with the data. Where it is too
  /// much, layers are computed again on the way back, which takes less. Fails as the call would for
  /// data that are not tokens.
  [[nodiscard]] Result<std::size_t> memory_needed(std::span<const Datum> data) const;
  /// Bytes that the training calls of all adapters of this engine have taken, and keep for the next
  /// ones.
  [[nodiscard]] Result<std::size_t> memory_used() const;

  /// The adapter after the calls that were made before; later steps do not change it. Nothing is
  /// copied.
  [[nodiscard]] Result<AdapterSnapshot> snapshot() const;
  Future<AdapterSnapshot> snapshot_async() const;

  /// Makes `folder` a checkpoint: adapter_model.safetensors and adapter_config.json as PEFT has
  /// them, optimizer.safetensors, and checkpoint_complete, which is empty. Until all of it is on
  /// the disk, `folder` is what it was. A folder that is there is replaced if it is empty or holds
  /// nothing but these files; otherwise it fails with `invalid_argument`, and names what else is
  /// there. Gradients that no step has used are not in it. Fails with `io_error` for what cannot be
  /// written.
  Result<void> save(const std::filesystem::path& folder,
                    CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  Future<void> save_async(std::filesystem::path folder,
                          CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  /// The same for the weights of one of its snapshots.
  Future<void> save_async(AdapterSnapshot from, std::filesystem::path folder) const;
  /// Makes it what was saved, with a new optimizer unless its state is loaded, too, and discards
  /// gradients that no step has used. What this trainer was asked to save before is saved first.
  /// All of it is of one checkpoint, also while another takes its place. Fails with
  /// `invalid_argument`, and names the file, the member or the tensor, if the checkpoint is not
  /// complete, has another rank, alpha or other matrices, numbers that are not finite, or lacks a
  /// state that is asked for; nothing is changed then.
  Result<void> load(const std::filesystem::path& folder,
                    CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  Future<void> load_async(std::filesystem::path folder,
                          CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  // NOLINTEND(modernize-use-nodiscard)

 private:
  [[nodiscard]] Future<OptimStepResponse> muon_step(const MuonParams& params) const;
  [[nodiscard]] Future<OptimStepResponse> requested_step(const OptimParams& params) const;
  [[nodiscard]] Result<OptimStepResponse> wait_for_muon_step(const MuonParams& params) const;
  [[nodiscard]] Result<OptimStepResponse> wait_for_requested_step(const OptimParams& params) const;
  [[nodiscard]] engine::EngineCall call(const char* name) const;
  [[nodiscard]] engine::EngineCall pass(const char* name) const;
  friend class Engine;
  LocalTrainer(std::shared_ptr<engine::EngineCore> core,
               std::shared_ptr<engine::TrainerState> state)
      : core_(std::move(core)), state_(std::move(state)) {}
  std::shared_ptr<engine::EngineCore> core_;
  std::shared_ptr<engine::TrainerState> state_;
  CallOptions options_ = {};
  std::string tenant_ = {};
};

/// A loaded model. A handle: copies share it. When the last handle goes, its trainers included,
/// what is under way ends with `cancelled`.
///
/// Thread-safe. Training and sampling take turns in steps of a few hundredths of a second, so that
/// both go on while both are wanted, in the shares that `EngineOptions` say. Samples that are asked
/// for at the same time are computed together, a token of each at a time.
class Engine {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures are so by themselves.
  /// From a Hugging Face folder or a GGUF file. Fails with `invalid_argument`, and names the file,
  /// the member or the tensor.
  static Result<Engine> load(const std::filesystem::path& model, const EngineOptions& options = {});

  /// This engine with other options for its calls: a deadline, a stop token. What is stopped or
  /// late ends between two tokens.
  [[nodiscard]] Engine with(CallOptions options) const;
  /// This engine with calls that are done in the share of this tenant; trainers that it makes are
  /// the tenant's. While several tenants want the engine, none gets less than another.
  [[nodiscard]] Engine for_tenant(std::string tenant) const;

  /// Training of a new adapter: B = 0, A from the seed.
  [[nodiscard]] Result<LocalTrainer> create_trainer(const LoraConfig& config = {}) const;
  Future<LocalTrainer> create_trainer_async() const;
  Future<LocalTrainer> create_trainer_async(LoraConfig config) const;
  /// Training of one that was saved, with the rank and the matrices that it has. Fails as
  /// `LocalTrainer::load` does.
  [[nodiscard]] Result<LocalTrainer> load_trainer(
      const std::filesystem::path& folder,
      CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  Future<LocalTrainer> load_trainer_async(
      std::filesystem::path folder,
      CheckpointParts parts = CheckpointParts::weights_and_optimizer) const;
  /// The same, to sample from.
  [[nodiscard]] Result<AdapterSnapshot> load_snapshot(const std::filesystem::path& folder) const;
  Future<AdapterSnapshot> load_snapshot_async(std::filesystem::path folder) const;

  /// Makes a Hugging Face folder with the adapter added to the weights of the base model, which are
  /// read again from where it was loaded; tokenizer files that are there are copied. With no
  /// adapter, what is written is the base model. A tied head that is adapted is no longer tied.
  /// Refuses a folder that is not empty.
  [[nodiscard]] Result<void> export_merged(const AdapterSnapshot& from,
                                           const std::filesystem::path& folder,
                                           const ExportOptions& options = {}) const;
  Future<void> export_merged_async(AdapterSnapshot from, std::filesystem::path folder) const;
  Future<void> export_merged_async(AdapterSnapshot from,
                                   std::filesystem::path folder,
                                   ExportOptions options) const;

  /// Draws from the base model or from a snapshot, which may be of another engine with the same
  /// model, precision and kernels. Without `max_tokens` an answer may be as long as the model's
  /// context and the cache allow.
  [[nodiscard]] Result<SampleResponse> sample(const ModelInput& prompt,
                                              const SamplingParams& params,
                                              const AdapterSnapshot& from = {},
                                              const SampleOptions& options = {}) const;
  Future<SampleResponse> sample_async(ModelInput prompt, SamplingParams params) const;
  Future<SampleResponse> sample_async(ModelInput prompt,
                                      SamplingParams params,
                                      AdapterSnapshot from) const;
  Future<SampleResponse> sample_async(ModelInput prompt,
                                      SamplingParams params,
                                      AdapterSnapshot from,
                                      SampleOptions options) const;
  /// The same, and tells `progress` how far it has come.
  Future<SampleResponse> sample_async(ModelInput prompt,
                                      SamplingParams params,
                                      AdapterSnapshot from,
                                      SampleOptions options,
                                      std::shared_ptr<SampleProgress> progress) const;
  /// Waits for nothing.
  [[nodiscard]] EngineQueue queue() const noexcept;
  /// From now on training calls may take this much besides the weights, whatever
  /// `EngineOptions::training_bytes` says; 0: that again. For whoever shares memory out.
  void limit_training(std::size_t bytes) const noexcept;
  // NOLINTEND(modernize-use-nodiscard)

 private:
  explicit Engine(std::shared_ptr<engine::EngineCore> core) : core_(std::move(core)) {}
  [[nodiscard]] engine::EngineCall call(const char* name) const;
  static Result<LocalTrainer> trainer_of(const std::weak_ptr<engine::EngineCore>& weak,
                                         std::shared_ptr<engine::TrainerState> state,
                                         const std::string& tenant);
  std::shared_ptr<engine::EngineCore> core_;
  CallOptions options_ = {};
  std::string tenant_ = {};
};

}  // namespace tinker
