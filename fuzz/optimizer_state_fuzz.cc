#include <cstdint>
#include <string_view>

#include "engine/checkpoint.h"
#include "tinker/check.h"

// optimizer.safetensors of an adapter of two small matrices: what is accepted has as many moments
// as the adapter has parameters.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker;
  static const engine::ModelConfig config = {.vocab_size = 2,
                                             .hidden_size = 2,
                                             .ffn_size = 2,
                                             .layers = 1,
                                             .heads = 1,
                                             .kv_heads = 1,
                                             .head_dim = 2};
  static const auto layout =
      engine::LoraLayout::create(config, {.rank = 1, .train_attn = false, .train_mlp = false});
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto state = engine::read_optimizer_state(file, **layout);
  if (!state.ok()) return 0;
  const auto steps = engine::steps_of(*state);
  TINKER_CHECK(steps >= 0);
  const std::size_t expected = steps == 0 ? 0 : (*layout)->parameters();
  if (const auto* const adam = std::get_if<engine::AdamState>(&*state)) {
    TINKER_CHECK(adam->m.size() == expected && adam->v.size() == expected);
  } else {
    TINKER_CHECK(std::get<engine::MuonState>(*state).m.size() == expected);
  }
  return 0;
}
