#include "engine/peft.h"

#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "base/half.h"
#include "base/strings.h"

namespace tinker::engine {
namespace {

using Tensor = formats::Safetensors::Tensor;
using Dtype = formats::Safetensors::Dtype;

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

constexpr std::string_view kRoot = "base_model.model.";

/// A factor of a module as a tensor of the file.
struct Factor {
  std::string name = {};  ///< "model.layers.0.self_attn.q_proj.lora_A.weight"
  std::vector<std::uint64_t> shape = {};
};
Factor factor_a(const LoraModule& module, std::size_t rank) {
  return {.name = module.name + ".lora_A.weight", .shape = {rank, module.in}};
}
Factor factor_b(const LoraModule& module, std::size_t rank) {
  return {.name = module.name + ".lora_B.weight", .shape = {module.out, rank}};
}

Result<const Tensor*> find(const formats::Safetensors& file,
                           std::string_view prefix,
                           const Factor& factor) {
  const auto name = base::concat(prefix, kRoot, factor.name);
  const auto& expected = factor.shape;
  const auto* found = file.find(name);
  if (found == nullptr && factor.name.starts_with("lm_head."))
    found = file.find(base::concat(prefix, kRoot, "model.", factor.name));
  if (found == nullptr) return Error::invalid_argument(name + ": the file has no such tensor");
  if (found->shape != expected) {
    return Error::invalid_argument(found->name + ": its shape is " + shape_text(found->shape) +
                                   "; expected " + shape_text(expected));
  }
  if (found->dtype != Dtype::f32 && found->dtype != Dtype::bf16 && found->dtype != Dtype::f16) {
    return Error::invalid_argument(found->name + ": its type is " +
                                   std::string(to_string(found->dtype)) +
                                   "; expected F32, BF16 or F16");
  }
  return found;
}

/// The tensors of one module.
struct Factors {
  const LoraModule* module = nullptr;
  const Tensor* a = nullptr;
  const Tensor* b = nullptr;
};
/// Those of all modules whose names begin with a prefix.
Result<std::vector<Factors>> find_all(const formats::Safetensors& file,
                                      std::string_view prefix,
                                      const LoraLayout& layout) {
  const std::size_t rank = layout.config().rank;
  std::vector<Factors> out;
  for (const auto& module : layout.modules()) {
    TINKER_TRY(const Tensor* const a, find(file, prefix, factor_a(module, rank)));
    TINKER_TRY(const Tensor* const b, find(file, prefix, factor_b(module, rank)));
    out.push_back({.module = &module, .a = a, .b = b});
  }
  return out;
}

Result<void> check_numbers(const Tensor& tensor, std::size_t count, bool is_signed) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = element(tensor, i);
    if (std::isfinite(value) && (is_signed || value >= 0)) continue;
    return Error::invalid_argument(base::concat(tensor.name,
                                                ": its number ",
                                                i,
                                                " is ",
                                                value,
                                                "; expected a finite one",
                                                is_signed ? "" : " of at least 0"));
  }
  return {};
}

Result<Floats> read_numbers(std::span<const Factors> factors,
                            const LoraLayout& layout,
                            bool is_signed) {
  const std::size_t rank = layout.config().rank;
  Floats out(layout.parameters());
  for (const auto& [module, a, b] : factors) {
    TINKER_TRY(check_numbers(*a, rank * module->in, is_signed));
    TINKER_TRY(check_numbers(*b, rank * module->out, is_signed));
    for (std::size_t i = 0; i < rank * module->in; ++i) out[module->a + i] = element(*a, i);
    for (std::size_t i = 0; i < module->out; ++i) {
      for (std::size_t r = 0; r < rank; ++r)
        out[module->b + r * module->out + i] = element(*b, i * rank + r);
    }
  }
  return out;
}

}  // namespace

Result<std::vector<Floats>> read_peft_tensors(const formats::Safetensors& file,
                                              const LoraLayout& layout,
                                              std::span<const PeftPrefix> prefixes) {
  // A config can claim any rank; with all of its tensors there, the file is as large as they are.
  std::vector<std::vector<Factors>> found;
  std::set<const Tensor*> used;
  for (const auto& prefix : prefixes) {
    TINKER_TRY(auto factors, find_all(file, prefix.text, layout));
    for (const auto& [module, a, b] : factors) used.insert({a, b});
    found.push_back(std::move(factors));
  }
  for (const auto& tensor : file.tensors()) {
    if (!used.contains(&tensor))
      return Error::invalid_argument(tensor.name + ": the model has no such adapter");
  }
  std::vector<Floats> out;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    TINKER_TRY(auto values, read_numbers(found[i], layout, prefixes[i].is_signed));
    out.push_back(std::move(values));
  }
  return out;
}

Result<Floats> read_peft_tensors(const formats::Safetensors& file, const LoraLayout& layout) {
  constexpr std::array<PeftPrefix, 1> kNoPrefix = {};
  TINKER_TRY(auto all, read_peft_tensors(file, layout, kNoPrefix));
  return std::move(all.front());
}

Result<void> write_peft_tensors(const std::filesystem::path& path,
                                const LoraLayout& layout,
                                std::span<const PeftNumbers> numbers,
                                const formats::Safetensors::Metadata& metadata) {
  const std::size_t rank = layout.config().rank;
  const auto modules = layout.modules();
  std::vector<Tensor> tensors;  // A and B of each module, for each of the numbers
  for (const auto& [prefix, values] : numbers) {
    for (const auto& module : modules) {
      for (auto& factor : {factor_a(module, rank), factor_b(module, rank)}) {
        tensors.push_back({.name = base::concat(prefix, kRoot, factor.name),
                           .dtype = Dtype::f32,
                           .shape = factor.shape});
      }
    }
  }
  std::vector<float> turned;
  const auto bytes_of = [](std::span<const float> values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  };
  const auto make_data = [&](std::size_t index, const formats::WriteBytes& write) {
    const auto& module = modules[index / 2 % modules.size()];
    const auto values = numbers[index / 2 / modules.size()].values;
    if (index % 2 == 0) return write(bytes_of(values.subspan(module.a, rank * module.in)));
    turned.resize(rank * module.out);
    for (std::size_t i = 0; i < module.out; ++i) {
      for (std::size_t r = 0; r < rank; ++r)
        turned[i * rank + r] = values[module.b + r * module.out + i];
    }
    return write(bytes_of(turned));
  };
  return formats::write_safetensors(path, tensors, metadata, make_data);
}

}  // namespace tinker::engine
