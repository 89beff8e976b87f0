#pragma once

#include <filesystem>
#include <string>

#include "engine/model_config.h"
#include "tinker/result.h"

namespace tinker {

/// Makes a Hugging Face folder of random weights, bf16. `shape` is "d512", of 55 million parameters
/// without its embedding, or "smollm2". Fails with `invalid_argument` for others.
Result<void> make_model(const std::string& shape, const std::filesystem::path& folder);

/// The same of the weights of another model, so that everybody can read them.
Result<void> convert_model(const std::filesystem::path& model, const std::filesystem::path& folder);

/// Of one token among `context` others: forward, d/dx of every product, both factors of an adapter
/// on the seven projections, and attention to half of the others, which takes two products forward
/// and five backward.
double lora_flop_per_token(const engine::ModelConfig& config, double rank, double context);
/// Forward, with the logits of the last token alone.
double prefill_flop_per_token(const engine::ModelConfig& config, double context);

}  // namespace tinker
