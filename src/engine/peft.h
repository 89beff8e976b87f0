#pragma once

#include "engine/adapter.h"
#include "formats/safetensors.h"
#include "tinker/result.h"

namespace tinker::engine {

/// The parameters of an adapter as PEFT stores them: lora_A.weight (rank, in) and lora_B.weight
/// (out, rank) of each module. The head is also found under the hosted service's name of it. Fails
/// with `invalid_argument`, and names the tensor that is missing, misshapen or superfluous.
Result<Floats> read_peft_tensors(const formats::Safetensors& file, const LoraLayout& layout);

}  // namespace tinker::engine
