#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "formats/ggml_blocks.h"

namespace tinker::formats {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxDimensions = 8;
constexpr std::size_t kTypes = 13;
// Of each metadata type in its order; 0 for strings and arrays, which say it themselves.
constexpr std::array<std::size_t, kTypes> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

template <typename T>
T load(std::string_view bytes, std::size_t index) {
  T value = {};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

/// Reads a file from its beginning on.
class GgufParser {
 public:
  explicit GgufParser(std::string_view file) : file_(file) {}

  Result<Gguf> parse() {
    std::string_view magic;
    std::uint32_t version = 0;
    if (!take(4, magic) || magic != kMagic) return refuse("it does not begin with 'GGUF'");
    if (!read(version)) return truncated();
    if (version != 2 && version != 3) {
      return refuse(base::concat("version ", version, ", expected 2 or 3, little endian"));
    }
    std::uint64_t tensors = 0;
    std::uint64_t values = 0;
    if (!read(tensors) || !read(values)) return truncated();
    for (std::uint64_t i = 0; i < values; ++i) {
      TINKER_TRY(read_member());
    }
    TINKER_TRY(read_tensors(tensors));
    return std::move(out_);
  }

 private:
  using Type = Gguf::Type;

  [[nodiscard]] static Error refuse(std::string_view why) {
    return {.code = ErrorCode::invalid_argument, .message = base::concat("GGUF file: ", why)};
  }
  [[nodiscard]] Error truncated() const {
    return refuse(base::concat("it ends at byte ", file_.size(), " where more was announced"));
  }
  [[nodiscard]] std::uint64_t left() const { return file_.size() - at_; }
  bool take(std::uint64_t size, std::string_view& out) {
    if (size > left()) return false;
    out = file_.substr(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return true;
  }
  template <typename T>
  bool read(T& out) {
    std::string_view bytes;
    if (!take(sizeof(T), bytes)) return false;
    out = load<T>(bytes, 0);
    return true;
  }
  bool read(std::string_view& out) {
    std::uint64_t size = 0;
    return read(size) && take(size, out);
  }

  Result<void> read_member() {
    std::string_view key;
    std::uint32_t type = 0;
    if (!read(key) || !read(type)) return truncated();
    Gguf::Value value;
    value.is_array = type == static_cast<std::uint32_t>(Type::array);
    if (value.is_array && (!read(type) || !read(value.count))) return truncated();
    if (type >= kTypes || type == static_cast<std::uint32_t>(Type::array)) {
      return refuse(base::concat("'", key, "' has values of unknown type ", type));
    }
    value.type = static_cast<Type>(type);
    TINKER_TRY(read_items(key, value));
    if (!out_.values_.emplace(key, value).second) {
      return refuse(base::concat("'", key, "' is there twice"));
    }
    return {};
  }

  Result<void> read_items(std::string_view key, Gguf::Value& value) {
    const std::size_t size = kSizes[static_cast<std::size_t>(value.type)];
    const auto too_many = [&] {
      return refuse(base::concat("'", key, "' announces ", value.count, " values beyond the end"));
    };
    if (size > 0) {
      if (value.count > left() / size || !take(value.count * size, value.bytes)) return too_many();
      return {};
    }
    const std::size_t begin = at_;
    std::string_view item;
    for (std::uint64_t i = 0; i < value.count; ++i) {
      if (!read(item)) return too_many();
    }
    value.bytes = file_.substr(begin, at_ - begin);
    return {};
  }

  Result<void> read_tensors(std::uint64_t count) {
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < count; ++i) {
      Gguf::Tensor tensor;
      std::uint32_t dimensions = 0;
      std::uint64_t offset = 0;
      if (!read(tensor.name) || !read(dimensions)) return truncated();
      if (dimensions > kMaxDimensions) {
        return refuse(base::concat("tensor '", tensor.name, "' has ", dimensions, " dimensions"));
      }
      for (std::uint32_t d = 0; d < dimensions; ++d) {
        if (!read(tensor.shape.emplace_back())) return truncated();
      }
      if (!read(tensor.type) || !read(offset)) return truncated();
      offsets.push_back(offset);
      out_.tensors_.push_back(std::move(tensor));
    }
    if (out_.tensors_.empty()) return {};
    return find_data(offsets);
  }

  Result<void> find_data(const std::vector<std::uint64_t>& offsets) {
    const auto announced = out_.integer("general.alignment");
    const auto alignment = static_cast<std::uint64_t>(announced.value_or(kDefaultAlignment));
    if (!std::has_single_bit(alignment) || alignment > file_.size()) {
      return refuse(base::concat("an alignment of ", alignment, " bytes"));
    }
    const std::uint64_t begin = (at_ + alignment - 1) / alignment * alignment;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      auto& tensor = out_.tensors_[i];
      TINKER_TRY(const auto bytes, size_of(tensor));
      if (!bytes) continue;
      const std::uint64_t size = file_.size();
      if (begin > size || offsets[i] > size - begin || *bytes > size - begin - offsets[i]) {
        return refuse(base::concat("tensor '", tensor.name, "' ends beyond the end of the file"));
      }
      tensor.data = file_.substr(static_cast<std::size_t>(begin + offsets[i]),
                                 static_cast<std::size_t>(*bytes));
    }
    return {};
  }

  /// Nothing for a type that is not known.
  Result<std::optional<std::uint64_t>> size_of(const Gguf::Tensor& tensor) const {
    const GgmlType* const type = find_ggml_type(tensor.type);
    if (type == nullptr) return std::optional<std::uint64_t>();
    const auto refuse_shape = [&](std::string_view why) {
      return refuse(base::concat("tensor '", tensor.name, "' ", why));
    };
    std::uint64_t blocks = 1;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      std::uint64_t extent = tensor.shape[d];
      if (d == 0) {
        if (extent % type->block_values != 0) return refuse_shape("has rows of broken blocks");
        extent /= type->block_values;
      }
      if (extent != 0 && blocks > file_.size() / extent) {
        return refuse_shape("is larger than the file");
      }
      blocks *= extent;
    }
    if (blocks > file_.size() / type->block_bytes) return refuse_shape("is larger than the file");
    return std::optional(blocks * type->block_bytes);
  }

  std::string_view file_;
  std::size_t at_ = 0;
  Gguf out_;
};

Result<Gguf> Gguf::parse(std::string_view file) {
  return GgufParser(file).parse();
}

const Gguf::Value* Gguf::find(std::string_view key, bool is_array) const {
  const auto found = values_.find(key);
  return found != values_.end() && found->second.is_array == is_array ? &found->second : nullptr;
}

std::optional<std::int64_t> Gguf::integer_at(const Value& value, std::size_t index) {
  switch (value.type) {
    case Type::u8: return load<std::uint8_t>(value.bytes, index);
    case Type::i8: return load<std::int8_t>(value.bytes, index);
    case Type::u16: return load<std::uint16_t>(value.bytes, index);
    case Type::i16: return load<std::int16_t>(value.bytes, index);
    case Type::u32: return load<std::uint32_t>(value.bytes, index);
    case Type::i32: return load<std::int32_t>(value.bytes, index);
    case Type::i64: return load<std::int64_t>(value.bytes, index);
    case Type::u64: {
      const auto wide = load<std::uint64_t>(value.bytes, index);
      if (!std::in_range<std::int64_t>(wide)) return std::nullopt;
      return static_cast<std::int64_t>(wide);
    }
    default: return std::nullopt;
  }
}

std::optional<double> Gguf::number_at(const Value& value, std::size_t index) {
  if (value.type == Type::f32) return load<float>(value.bytes, index);
  if (value.type == Type::f64) return load<double>(value.bytes, index);
  const auto whole = integer_at(value, index);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<std::string_view> Gguf::string(std::string_view key) const {
  const Value* const value = find(key, false);
  if (value == nullptr || value->type != Type::string) return std::nullopt;
  return value->bytes.substr(sizeof(std::uint64_t));
}

std::optional<std::int64_t> Gguf::integer(std::string_view key) const {
  const Value* const value = find(key, false);
  return value == nullptr ? std::nullopt : integer_at(*value, 0);
}

std::optional<double> Gguf::number(std::string_view key) const {
  const Value* const value = find(key, false);
  return value == nullptr ? std::nullopt : number_at(*value, 0);
}

std::optional<bool> Gguf::boolean(std::string_view key) const {
  const Value* const value = find(key, false);
  if (value == nullptr || value->type != Type::boolean) return std::nullopt;
  return value->bytes[0] != '\0';
}

std::optional<std::vector<std::string_view>> Gguf::strings(std::string_view key) const {
  const Value* const value = find(key, true);
  if (value == nullptr || value->type != Type::string) return std::nullopt;
  std::vector<std::string_view> out;
  std::string_view rest = value->bytes;
  while (!rest.empty()) {
    const auto size = static_cast<std::size_t>(load<std::uint64_t>(rest, 0));
    out.push_back(rest.substr(sizeof(std::uint64_t), size));
    rest.remove_prefix(sizeof(std::uint64_t) + size);
  }
  return out;
}

std::optional<std::vector<std::int64_t>> Gguf::integers(std::string_view key) const {
  const Value* const value = find(key, true);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < value->count; ++i) {
    const auto item = integer_at(*value, i);
    if (!item) return std::nullopt;
    out.push_back(*item);
  }
  return out;
}

std::optional<std::vector<double>> Gguf::numbers(std::string_view key) const {
  const Value* const value = find(key, true);
  if (value == nullptr || value->type == Type::string) return std::nullopt;
  std::vector<double> out;
  for (std::size_t i = 0; i < value->count; ++i) {
    const auto item = number_at(*value, i);
    if (!item) return std::nullopt;
    out.push_back(*item);
  }
  return out;
}

const Gguf::Tensor* Gguf::find_tensor(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace tinker::formats
