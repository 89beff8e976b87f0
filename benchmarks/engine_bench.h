#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model_config.h"
#include "tinker/engine.h"

/// What the parts of engine_bench share.
namespace tinker {

// As many as the cache keeps together: asked for again, they need not be computed.
inline constexpr std::size_t kPromptTokens = 32;
inline constexpr std::size_t kNewTokens = 32;

struct EngineBenchOptions {
  std::filesystem::path model = {};
  std::vector<std::string> what = {};
  EnginePrecision precision = EnginePrecision::bf16;
  std::size_t threads = 2;
  std::optional<std::string> cpu = {};
  int repetitions = 3;
  std::size_t sequences = 4;  // of a step
  std::size_t length = 512;   // of each of them
  std::vector<std::size_t> batches = {1, 8, 64};

  [[nodiscard]] bool asks_for(std::string_view name) const {
    return std::ranges::find(what, name) != what.end();
  }
};

/// One line: {"what": what, name: number, ...}
void print(std::string_view what, const std::vector<std::pair<std::string_view, double>>& numbers);
/// engine_peer.py makes the same. Different ones for each `sequence`.
std::vector<std::int32_t> tokens_of(std::uint64_t sequence,
                                    std::size_t count,
                                    const engine::ModelConfig& config);
/// The batch of a step of training.
std::vector<Datum> step_data(const engine::ModelConfig& config, const EngineBenchOptions& options);

/// One request after another beside one step of training after another, and each of them alone. The
/// adapter is the one that users get by default.
Result<void> bench_sharing(const engine::ModelConfig& config, const EngineBenchOptions& options);

/// A step of training, or an iteration of reinforcement learning, for each line that it reads,
/// until there are no more; prints what each took. The adapter is the default one.
Result<void> bench_turns(const engine::ModelConfig& config, const EngineBenchOptions& options);

}  // namespace tinker
