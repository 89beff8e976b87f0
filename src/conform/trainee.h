#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conform/probe.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/optimizer.h"

namespace tinker::conform {

using Numbers = std::vector<double>;

/// A model in training, and the numbers of its requests. Requests whose `model_id` and `seq_id` are
/// empty get this model's, and the next number.
class Trainee {
 public:
  /// A new adapter of rank 8 with the given seed.
  static Result<Trainee> create(Probe& probe, std::int64_t seed = 1);
  /// A model that is there already, whose next request has that number.
  Trainee(Probe& probe, std::string model_id, std::int64_t next_seq)
      : probe_(&probe), id_(std::move(model_id)), next_seq_(next_seq) {}

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] Probe& probe() const noexcept { return *probe_; }
  std::int64_t take_seq() noexcept { return next_seq_++; }

  Result<Answer> post(ForwardBackwardRequest request);
  Result<std::string> submit(ForwardBackwardRequest request);
  Result<ForwardBackwardOutput> run(ForwardBackwardRequest request);

  Result<Answer> post(OptimStepRequest request);
  Result<std::string> submit(const AdamParams& params);
  Result<OptimStepResponse> step(const AdamParams& params);

  /// Logprobs of the targets of `text`, by a forward pass.
  Result<Numbers> logprobs(const std::vector<std::int32_t>& text);

  /// Saved weights of that name, to be deleted with the law; the tinker path.
  Result<std::string> save(std::string_view name, bool overwrite = false);
  Result<std::string> save_for_sampler(std::string_view name);
  Result<void> load(const std::string& path, bool with_optimizer);

 private:
  Probe* probe_;
  std::string id_;
  std::int64_t next_seq_ = 1;
};

/// The float output of that name of one datum.
Result<Numbers> output_of(const ForwardBackwardOutput& output,
                          std::size_t datum,
                          std::string_view name = "logprobs");

}  // namespace tinker::conform
