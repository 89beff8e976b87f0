#include <cstdint>
#include <string_view>

#include "engine/adapter_config.h"
#include "tinker/check.h"

// adapter_config.json: what is accepted trains something, and, written again, is the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto shape = engine::read_adapter_config(file);
  if (!shape.ok()) return 0;
  TINKER_CHECK(shape->rank > 0 && shape->alpha > 0);
  TINKER_CHECK(shape->train_attn || shape->train_mlp || shape->train_unembed);
  const auto again = engine::read_adapter_config(engine::to_json(*shape, file));
  TINKER_CHECK(again.ok() && *again == *shape);
  return 0;
}
