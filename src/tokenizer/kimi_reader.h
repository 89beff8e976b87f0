#pragma once

#include <string_view>

#include "tinker/result.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads the `tiktoken.model` of a Kimi model, with the `tokenizer_config.json` that names its
/// special tokens. Other models have files of these names too; those are refused.
Result<Pipeline> read_kimi(std::string_view ranks, std::string_view config);

}  // namespace tinker::tokenizer
