#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tinker/result.h"

namespace tinker::formats {

/// What a GGUF file (version 2 or 3, little endian) says of itself: its metadata and where its
/// tensors are. Every count and length is checked against the size of the file.
///
/// Immutable. All views are of the file, which must outlive it.
class Gguf {
 public:
  struct Tensor {
    std::string_view name = {};
    std::vector<std::uint64_t> shape = {};  ///< The first dimension is the contiguous one.
    std::uint32_t type = 0;                 ///< ggml's number of it.
    std::string_view data = {};             ///< Empty for types whose size is not known here.
  };

  /// Fails with `invalid_argument`, and names the key or the tensor.
  static Result<Gguf> parse(std::string_view file);

  /// Nothing when there is no such key, or its value is of another kind.
  [[nodiscard]] std::optional<std::string_view> string(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(key); }

  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const Tensor* find_tensor(std::string_view name) const noexcept;

 private:
  friend class GgufParser;
  enum class Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    string,
    array,
    u64,
    i64,
    f64,
  };
  struct Value {
    Type type = Type::u8;  // of the items of an array
    bool is_array = false;
    std::uint64_t count = 1;
    std::string_view bytes = {};
  };
  [[nodiscard]] const Value* find(std::string_view key, bool is_array) const;
  static std::optional<std::int64_t> integer_at(const Value& value, std::size_t index);
  static std::optional<double> number_at(const Value& value, std::size_t index);

  std::unordered_map<std::string_view, Value> values_;
  std::vector<Tensor> tensors_;
};

}  // namespace tinker::formats
