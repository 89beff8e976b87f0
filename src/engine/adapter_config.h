#pragma once

#include <string>
#include <string_view>

#include "engine/adapter.h"
#include "tinker/result.h"

namespace tinker::engine {

/// From the text of PEFT's adapter_config.json. Fails with `invalid_argument` for what this engine
/// cannot run, and names the member and its value; target_modules are all matrices of the
/// attention, all of the feed-forward network, the head, or any of the three together.
Result<LoraShape> read_adapter_config(std::string_view text);

/// adapter_config.json for PEFT; reads back as the same.
std::string to_json(const LoraShape& shape, std::string_view base_model);

}  // namespace tinker::engine
