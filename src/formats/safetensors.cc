#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include <simdjson.h>

#include "base/atomic_file.h"
#include "base/strings.h"
#include "formats/json_object.h"
#include "formats/json_string.h"
#include "formats/shape_text.h"
#include "tinker/check.h"

namespace tinker::formats {

namespace {

static_assert(std::endian::native == std::endian::little);

using Tensor = Safetensors::Tensor;
using Element = simdjson::dom::element;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // as in the official library
constexpr std::string_view kMetadata = "__metadata__";

struct DtypeLayout {
  std::string_view name;
  std::uint64_t bytes;
};
// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
// Of each dtype in its order.
constexpr std::array<DtypeLayout, 15> kLayouts = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
}};
// NOLINTEND(modernize-use-designated-initializers)

Error refuse(std::string_view why) {
  return {.code = ErrorCode::invalid_argument, .message = base::concat("safetensors file: ", why)};
}

Error refuse_tensor(std::string_view name, std::string_view why) {
  return refuse(base::concat("tensor '", name, "': ", why));
}

/// What is wrong with a tensor that somebody else will name.
Error flaw(std::string why) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(why)};
}

/// Nothing when it is beyond what can be counted.
std::optional<std::uint64_t> size_of(const Tensor& tensor) {
  std::uint64_t size = kLayouts.at(static_cast<std::size_t>(tensor.dtype)).bytes;
  for (const auto extent : tensor.shape) {
    if (__builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  }
  return size;
}

Result<void> check_size(const Tensor& tensor) {
  if (size_of(tensor) == tensor.data.size()) return {};
  return flaw(base::concat(to_string(tensor.dtype),
                           " of shape ",
                           shape_text(tensor.shape),
                           " does not take ",
                           tensor.data.size(),
                           " bytes"));
}

}  // namespace

class SafetensorsParser {
 public:
  explicit SafetensorsParser(std::string_view file) : file_(file) {}

  Result<Safetensors> parse() {
    std::uint64_t size = 0;
    if (file_.size() < sizeof(size)) return refuse("it is shorter than the length of its header");
    std::memcpy(&size, file_.data(), sizeof(size));
    file_.remove_prefix(sizeof(size));
    if (size > std::min<std::uint64_t>(kMaxHeader, file_.size())) {
      return refuse(base::concat("a header of ", size, " bytes, where ", file_.size(), " follow"));
    }
    const auto header = file_.substr(0, static_cast<std::size_t>(size));
    data_ = file_.substr(header.size());
    TINKER_TRY(read_header(header));
    TINKER_TRY(check_places());
    std::ranges::sort(out_.tensors_, {}, &Tensor::name);
    const auto twice = std::ranges::adjacent_find(out_.tensors_, {}, &Tensor::name);
    if (twice != out_.tensors_.end()) return refuse_tensor(twice->name, "it is there twice");
    return std::move(out_);
  }

 private:
  Result<void> read_header(std::string_view header) {
    if (!header.starts_with('{')) return refuse("its header does not begin with '{'");
    simdjson::dom::parser parser;
    const auto members = JsonObject::parse(header, parser);
    if (!members.ok()) return refuse(members.error().message);
    return members->for_each_member([this](std::string_view name, Element value) -> Result<void> {
      if (name == kMetadata) return read_metadata(value);
      const auto done = read_tensor(name, value);
      return done.ok() ? done : refuse_tensor(name, done.error().message);
    });
  }

  Result<void> read_metadata(Element element) {
    TINKER_TRY(const auto members, JsonObject::from(element, kMetadata));
    return members.for_each_member([&](std::string_view name, Element value) -> Result<void> {
      std::string_view text;
      if (value.get_string().get(text) != simdjson::SUCCESS) {
        return refuse(base::concat("metadata '", name, "' is no string"));
      }
      out_.metadata_.emplace(name, text);
      return {};
    });
  }

  Result<void> read_tensor(std::string_view name, Element element) {
    TINKER_TRY(const auto members, JsonObject::from(element, "it"));
    TINKER_TRY(const auto dtype, members.string("dtype"));
    const auto* const layout = std::ranges::find(kLayouts, dtype, &DtypeLayout::name);
    if (layout == kLayouts.end()) {
      return flaw(base::concat("values of unknown type '", dtype, "'"));
    }
    Tensor tensor = {.name = std::string(name),
                     .dtype = static_cast<Safetensors::Dtype>(layout - kLayouts.begin())};
    TINKER_TRY(tensor.shape, numbers(members, "shape"));
    TINKER_TRY(const auto place, numbers(members, "data_offsets"));
    if (place.size() != 2 || place[0] > place[1] || place[1] > data_.size()) {
      return flaw(base::concat("its place ", shape_text(place), " is not in the file"));
    }
    tensor.data = data_.substr(static_cast<std::size_t>(place[0]),
                               static_cast<std::size_t>(place[1] - place[0]));
    TINKER_TRY(check_size(tensor));
    out_.tensors_.push_back(std::move(tensor));
    return {};
  }

  static Result<std::vector<std::uint64_t>> numbers(const JsonObject& members,
                                                    std::string_view name) {
    std::vector<std::uint64_t> out;
    TINKER_TRY(members.for_each(name, [&](Element element) -> Result<void> {
      if (element.get_uint64().get(out.emplace_back()) == simdjson::SUCCESS) return {};
      return flaw(base::concat("'", name, "' holds what is no size"));
    }));
    return out;
  }

  /// The tensors fill the data, one after the other.
  Result<void> check_places() {
    const auto place = [](const Tensor& tensor) {
      return std::pair(tensor.data.data(), tensor.data.size());
    };
    std::ranges::sort(out_.tensors_, {}, place);
    const char* end = data_.data();
    for (const auto& tensor : out_.tensors_) {
      if (tensor.data.data() != end) {
        return refuse_tensor(
            tensor.name, tensor.data.data() < end ? "it overlaps another" : "it follows a hole");
      }
      end += tensor.data.size();
    }
    const auto rest = data_.data() + data_.size() - end;
    if (rest == 0) return {};
    return refuse(base::concat(rest, " bytes at its end belong to no tensor"));
  }

  std::string_view file_;
  std::string_view data_;
  Safetensors out_;
};

Result<Safetensors> Safetensors::parse(std::string_view file) {
  return SafetensorsParser(file).parse();
}

const Safetensors::Tensor* Safetensors::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &Tensor::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::string_view to_string(Safetensors::Dtype dtype) noexcept {
  return kLayouts.at(static_cast<std::size_t>(dtype)).name;
}

namespace {

Result<void> check(const Tensor& tensor) {
  if (tensor.name == kMetadata) return flaw("its name means something else");
  if (!simdjson::validate_utf8(tensor.name)) return flaw("its name is not UTF-8");
  if (size_of(tensor)) return {};
  return flaw(base::concat("no file can hold the shape ", shape_text(tensor.shape)));
}

Result<void> append_metadata(std::string& out, const Safetensors::Metadata& metadata) {
  if (metadata.empty()) return {};
  append_json_string(out, kMetadata);
  out += ":{";
  for (const auto& [name, text] : metadata) {
    if (!simdjson::validate_utf8(name) || !simdjson::validate_utf8(text)) {
      return refuse(base::concat("metadata '", name, "' is not UTF-8"));
    }
    append_json_string(out, name);
    out += ':';
    append_json_string(out, text);
    out += ',';
  }
  out.back() = '}';
  out += ',';
  return {};
}

/// The tensors come in the order of their data.
Result<std::string> header_of(std::span<const Tensor* const> tensors,
                              const Safetensors::Metadata& metadata) {
  std::string out = "{";
  TINKER_TRY(append_metadata(out, metadata));
  std::uint64_t at = 0;
  for (const Tensor* const tensor : tensors) {
    if (const auto checked = check(*tensor); !checked.ok()) {
      return refuse_tensor(tensor->name, checked.error().message);
    }
    const std::array<std::uint64_t, 2> place = {at, at + *size_of(*tensor)};
    append_json_string(out, tensor->name);
    out += base::concat(R"(:{"dtype":")", to_string(tensor->dtype), R"(","shape":)");
    out += base::concat(shape_text(tensor->shape), R"(,"data_offsets":)", shape_text(place), "},");
    at = place[1];
  }
  if (out.ends_with(',')) out.pop_back();
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  return out;
}

}  // namespace

Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const Tensor> tensors,
                               const Safetensors::Metadata& metadata) {
  for (const auto& tensor : tensors) {
    if (const auto checked = check_size(tensor); !checked.ok()) {
      return refuse_tensor(tensor.name, checked.error().message);
    }
  }
  return write_safetensors(
      path, tensors, metadata, [&](std::size_t index, const WriteBytes& write) {
        return write(tensors[index].data);
      });
}

Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const Tensor> tensors,
                               const Safetensors::Metadata& metadata,
                               const MakeData& make_data) {
  std::vector<const Tensor*> ordered;
  for (const auto& tensor : tensors) ordered.push_back(&tensor);
  const auto key = [](const Tensor* tensor) {
    return std::tuple(-static_cast<int>(tensor->dtype), std::string_view(tensor->name));
  };
  std::ranges::sort(ordered, {}, key);
  TINKER_TRY(const auto header, header_of(ordered, metadata));
  std::vector<std::string_view> names;
  for (const auto& tensor : tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) return refuse_tensor(*twice, "it is there twice");

  TINKER_TRY(auto file, base::AtomicFile::create(path.string()));
  const std::uint64_t size = header.size();
  TINKER_TRY(file.write({reinterpret_cast<const char*>(&size), sizeof(size)}));
  TINKER_TRY(file.write(header));
  for (const Tensor* const tensor : ordered) {
    std::uint64_t written = 0;
    TINKER_TRY(
        make_data(static_cast<std::size_t>(tensor - tensors.data()), [&](std::string_view bytes) {
          written += bytes.size();
          return file.write(bytes);
        }));
    TINKER_CHECK(written == size_of(*tensor));
  }
  return file.commit();
}

}  // namespace tinker::formats
