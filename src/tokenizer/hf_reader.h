#pragma once

#include <string_view>

#include "tinker/result.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads a `tokenizer.json`. What it does not know it refuses by name.
Result<Pipeline> read_tokenizer_json(std::string_view json);

}  // namespace tinker::tokenizer
