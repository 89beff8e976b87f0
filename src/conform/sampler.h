#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "conform/trainee.h"
#include "tinker/types/sample.h"

namespace tinker::conform {

using Tokens = std::vector<std::int32_t>;

/// A sampling session, and the numbers of its requests. Requests without a session and a number get
/// this one's, and the next number.
class Sampler {
 public:
  static Result<Sampler> of_base_model(Probe& probe);
  static Result<Sampler> of_path(Probe& probe, const std::string& tinker_path);
  /// The weights as they are now, saved under no name.
  static Result<Sampler> of(Trainee& trainee);
  Sampler(Probe& probe, std::string id) : probe_(&probe), id_(std::move(id)) {}

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] Probe& probe() const noexcept { return *probe_; }

  /// The request with its session and number filled in; counts what it costs.
  SampleRequest complete(SampleRequest request);
  Result<Answer> post(SampleRequest request);
  Result<UntypedApiFuture> submit(SampleRequest request);
  Result<SampleResponse> sample(SampleRequest request);

  /// Logprobs of all tokens of `text` but the first.
  Result<Numbers> prompt_logprobs(const Tokens& text);

 private:
  Probe* probe_;
  std::string id_;
  std::int64_t next_seq_ = 0;
};

}  // namespace tinker::conform
