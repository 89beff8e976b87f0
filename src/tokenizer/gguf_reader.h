#pragma once

#include <string_view>

#include "tinker/result.h"
#include "tokenizer/pipeline.h"

namespace tinker::tokenizer {

/// Reads the vocabulary of a GGUF file: byte-level BPE ("gpt2") and SentencePiece BPE ("llama").
Result<Pipeline> read_gguf_vocabulary(std::string_view file);

}  // namespace tinker::tokenizer
