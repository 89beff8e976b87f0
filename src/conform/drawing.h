#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conform/lab.h"

namespace tinker::conform {

/// No stop at all, not even at the end of a sequence.
inline const Stop kNoStop = Tokens{};

/// The first tokens of the reference text.
ModelInput prompt_of(std::size_t tokens);
/// A request for `tokens` more of the whole reference text.
SampleRequest drawn(std::int64_t num_samples,
                    std::int64_t tokens,
                    std::optional<Seed> seed = std::nullopt);
/// A request for the likeliest tokens after its first three.
SampleRequest greedy(std::int64_t tokens);

std::vector<Tokens> tokens_of(const SampleResponse& response);
std::string text_of(const std::vector<Tokens>& sequences);

/// A sampler that has learned the reference text, so that some tokens are likelier than others, and
/// the model that it is of.
struct Trained {
  Trainee model;
  Sampler sampler;
};
Result<Trained> trained(Probe& probe);

/// A request for what not every server has: `undecided` where it is refused as it should be.
Result<SampleResponse> optional_sample(Sampler& sampler, const SampleRequest& request);

}  // namespace tinker::conform
