#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "engine/adapter.h"
#include "formats/safetensors.h"
#include "tinker/result.h"

namespace tinker::engine {

/// The parameters of an adapter as PEFT stores them: lora_A.weight (rank, in) and lora_B.weight
/// (out, rank) of each module. The head is also found under the hosted service's name of it. Fails
/// with `invalid_argument`, and names the tensor that is missing, misshapen or superfluous, or has
/// numbers that are not finite. Until all are found, nothing is allocated for them.
Result<Floats> read_peft_tensors(const formats::Safetensors& file, const LoraLayout& layout);

/// What the names of some tensors begin with, and which numbers they may have.
struct PeftPrefix {
  std::string_view text = {};
  bool is_signed = true;  ///< Not: at least 0.
};
/// Several numbers for each parameter, such as moments: the names of their tensors begin with one
/// of the prefixes. In their order.
Result<std::vector<Floats>> read_peft_tensors(const formats::Safetensors& file,
                                              const LoraLayout& layout,
                                              std::span<const PeftPrefix> prefixes);

/// Numbers of which each belongs to a parameter, and what the names of their tensors begin with.
struct PeftNumbers {
  std::string_view prefix = {};
  std::span<const float> values = {};
};
/// Makes a file that reads back as the same, in float32. Fails with `io_error`.
Result<void> write_peft_tensors(const std::filesystem::path& path,
                                const LoraLayout& layout,
                                std::span<const PeftNumbers> numbers,
                                const formats::Safetensors::Metadata& metadata);

}  // namespace tinker::engine
