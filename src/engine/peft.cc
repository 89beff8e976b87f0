#include "engine/peft.h"

#include <cstring>
#include <set>
#include <string>

#include "base/half.h"

namespace tinker::engine {
namespace {

using Tensor = formats::Safetensors::Tensor;
using Dtype = formats::Safetensors::Dtype;

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string out;
  for (const auto size : shape) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "[" + out + "]";
}

/// Element `index` of a tensor of floats.
float element(const Tensor& tensor, std::size_t index) {
  if (tensor.dtype == Dtype::f32) {
    float out = 0;
    std::memcpy(&out, tensor.data.data() + index * sizeof out, sizeof out);
    return out;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.data.data() + index * sizeof bits, sizeof bits);
  return tensor.dtype == Dtype::bf16 ? base::from_bf16(bits) : base::from_f16(bits);
}

Result<const Tensor*> find(const formats::Safetensors& file,
                           const std::string& module,
                           const std::string& factor,
                           std::uint64_t rows,
                           std::uint64_t columns) {
  const std::string suffix = module + "." + factor + ".weight";
  const auto* found = file.find("base_model.model." + suffix);
  if (found == nullptr && module == "lm_head")
    found = file.find("base_model.model.model." + suffix);
  if (found == nullptr)
    return invalid("base_model.model." + suffix + ": the file has no such tensor");
  const std::vector<std::uint64_t> expected = {rows, columns};
  if (found->shape != expected) {
    return invalid(found->name + ": its shape is " + shape_text(found->shape) + "; expected " +
                   shape_text(expected));
  }
  if (found->dtype != Dtype::f32 && found->dtype != Dtype::bf16 && found->dtype != Dtype::f16) {
    return invalid(found->name + ": its type is " + std::string(to_string(found->dtype)) +
                   "; expected F32, BF16 or F16");
  }
  return found;
}

}  // namespace

Result<Floats> read_peft_tensors(const formats::Safetensors& file, const LoraLayout& layout) {
  const std::size_t rank = layout.config().rank;
  Floats out(layout.parameters());
  std::set<const Tensor*> read;
  for (const auto& module : layout.modules()) {
    TINKER_TRY(const Tensor* const a, find(file, module.name, "lora_A", rank, module.in));
    TINKER_TRY(const Tensor* const b, find(file, module.name, "lora_B", module.out, rank));
    for (std::size_t i = 0; i < rank * module.in; ++i) out[module.a + i] = element(*a, i);
    for (std::size_t i = 0; i < module.out; ++i) {
      for (std::size_t r = 0; r < rank; ++r)
        out[module.b + r * module.out + i] = element(*b, i * rank + r);
    }
    read.insert({a, b});
  }
  for (const auto& tensor : file.tensors()) {
    if (!read.contains(&tensor)) return invalid(tensor.name + ": the model has no such adapter");
  }
  return out;
}

}  // namespace tinker::engine
