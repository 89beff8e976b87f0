#pragma once

#include <filesystem>

#include "tinker/result.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads a file of any known kind, or the first such file of a folder; errors name it.
Result<Pipeline> read_tokenizer_file(const std::filesystem::path& path);

}  // namespace tinker::tokenizer
