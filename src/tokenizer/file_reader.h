#pragma once

#include <filesystem>
#include <string>

#include "tinker/result.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads a file of any known kind, or the first such file of a folder; errors name it.
Result<Pipeline> read_tokenizer_file(const std::filesystem::path& given);

/// The file that `read_tokenizer_file` reads: `path` itself, or the first such file of a folder.
Result<std::filesystem::path> find_tokenizer_file(const std::filesystem::path& path);
/// By its name or its content: not every GGUF file is called so.
bool is_gguf(const std::filesystem::path& path);
/// A whole file; the error names it.
Result<std::string> read_file(const std::filesystem::path& path);

}  // namespace tinker::tokenizer
