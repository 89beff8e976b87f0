#pragma once

#include <string_view>

#include "tinker/result.h"
#include "tinker/tokenizer.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads the lines of a `.tiktoken` file.
Result<Pipeline> read_tiktoken(std::string_view ranks, const TiktokenOptions& options);

/// The same in two steps.
Result<Vocabulary> read_ranks(std::string_view ranks);
Result<Pipeline> tiktoken_pipeline(Vocabulary vocabulary, const TiktokenOptions& options);

/// Any two tokens that make a third, in the order of its id.
std::vector<Bpe::Merge> merges_of(const Vocabulary& vocabulary);

}  // namespace tinker::tokenizer
