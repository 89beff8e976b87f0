#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/model_config.h"
#include "tinker/result.h"

namespace tinker::server {

/// A model of random weights, for tests of the protocol: the same model on every machine.
struct RandomSource {
  std::size_t layers = 0;
  std::size_t dim = 0;
  std::size_t vocab = 512;
  std::size_t heads = 0;  ///< What `parse_random_source` chose when it was not said.
  std::uint64_t seed = 0;

  friend bool operator==(const RandomSource&, const RandomSource&) = default;
};

[[nodiscard]] bool is_random_source(std::string_view source);
/// "random:LAYERSxDIM[,vocab=N][,heads=N][,seed=N]". Fails with `invalid_argument`, and names the
/// part and what was expected.
Result<RandomSource> parse_random_source(std::string_view source);

/// A Qwen 3 model of these sizes.
engine::ModelConfig config_of(const RandomSource& source);
/// The same for the same source: "random-2x64-vocab512-heads4-seed0". No ':' in it, because clients
/// cut the name of a tokenizer there.
std::string folder_name(const RandomSource& source);

/// Writes the tokenizer, which clients may want before the model is needed: a token for each byte,
/// some control tokens, and pairs of letters while there is room. Later ids stand for nothing.
Result<void> write_random_tokenizer(const std::filesystem::path& folder,
                                    const RandomSource& source);
/// Writes config and weights unless they are there. Blocks.
Result<void> make_random_model(const std::filesystem::path& folder, const RandomSource& source);

}  // namespace tinker::server
