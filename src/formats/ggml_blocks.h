#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tinker::formats {

/// How a type of ggml's tensors keeps its values: so many in a block of so many bytes.
struct GgmlType {
  using Dequantise = void (*)(std::string_view blocks, std::span<float> values);

  std::uint32_t number;
  std::string_view name;  ///< E.g. "Q4_K"; "F32", "F16" and "BF16" are those of safetensors, too.
  std::uint64_t block_values;
  std::uint64_t block_bytes;
  /// Whole blocks to their values, bit for bit those of ggml's Python package. Null for types that
  /// are known by their size only.
  Dequantise dequantise;
};

/// Null for one that is not known.
const GgmlType* find_ggml_type(std::uint32_t number) noexcept;
const GgmlType* find_ggml_type(std::string_view name) noexcept;

}  // namespace tinker::formats
