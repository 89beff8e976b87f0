#include "tinker/types/model_input.h"

#include <utility>

#include "base/strings.h"

namespace tinker {
namespace {

Result<std::int64_t> chunk_length(const EncodedTextChunk& chunk) {
  return static_cast<std::int64_t>(chunk.tokens.size());
}

template <typename Image>
Result<std::int64_t> image_length(const Image& chunk) {
  if (chunk.expected_tokens) return *chunk.expected_tokens;
  return Error::invalid_argument("the image has no expected_tokens, which its length follows from");
}
Result<std::int64_t> chunk_length(const ImageChunk& chunk) {
  return image_length(chunk);
}
Result<std::int64_t> chunk_length(const ImageAssetPointerChunk& chunk) {
  return image_length(chunk);
}

Result<std::int64_t> chunk_length(const DmelChunk& chunk) {
  TINKER_TRY(const auto shape, tensor_container_shape(chunk.dmel));
  if (shape.empty()) return Error::invalid_argument("the tensor container has no dimension 0");
  if (!std::in_range<std::int64_t>(shape[0])) {
    return Error::invalid_argument(
        base::concat("the tensor container's dimension 0 is ", shape[0]));
  }
  return static_cast<std::int64_t>(shape[0]);
}

/// One unsigned LEB128 number from the front of `bytes`.
Result<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift <= 63; shift += 7) {
    if (bytes.empty()) return Error::invalid_argument("the tensor container's header is truncated");
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    // The tenth byte has room for one bit; what official readers would keep beyond is no dimension.
    if (shift == 63 && byte > 1 && byte < 0x80) {
      return Error::invalid_argument("a number in the tensor container's header is above 64 bits");
    }
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return Error::invalid_argument("a number in the tensor container's header is too long");
}

}  // namespace

ModelInput ModelInput::from_tokens(std::vector<std::int32_t> tokens) {
  ModelInput input;
  input.append(EncodedTextChunk{.tokens = std::move(tokens)});
  return input;
}

ModelInput& ModelInput::append(ModelInputChunk chunk) {
  chunks.push_back(std::move(chunk));
  return *this;
}

ModelInput& ModelInput::append_token(std::int32_t token) {
  auto* text = chunks.empty() ? nullptr : std::get_if<EncodedTextChunk>(&chunks.back());
  if (text == nullptr) return append(EncodedTextChunk{.tokens = {token}});
  text->tokens.push_back(token);
  return *this;
}

Result<std::int64_t> ModelInput::length() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    auto length = std::visit([](const auto& chunk) { return chunk_length(chunk); }, chunks[i]);
    if (!length) return std::move(length).error().with_context(base::concat("chunks[", i, "]"));
    if (__builtin_add_overflow(total, *length, &total)) {
      return Error::invalid_argument("the lengths of the chunks add up to more than 64 bits");
    }
  }
  return total;
}

Result<std::vector<std::int32_t>> ModelInput::to_tokens() const {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto* text = std::get_if<EncodedTextChunk>(&chunks[i]);
    if (text == nullptr)
      return Error::invalid_argument(base::concat("chunks[", i, "] is not text"));
    tokens.insert(tokens.end(), text->tokens.begin(), text->tokens.end());
  }
  return tokens;
}

Result<std::vector<std::uint64_t>> tensor_container_shape(std::string_view bytes) {
  constexpr char kConstantMarker = '\xfe';
  constexpr char kLastDtype = 7;
  if (bytes.empty()) return Error::invalid_argument("the tensor container is empty");
  if (bytes.front() == kConstantMarker) bytes.remove_prefix(1);
  if (bytes.empty()) return Error::invalid_argument("the tensor container's header is truncated");
  const char dtype = bytes.front();
  if (dtype < 0 || dtype > kLastDtype) {
    return Error::invalid_argument(
        base::concat("unknown dtype byte ",
                     static_cast<unsigned>(static_cast<std::uint8_t>(dtype)),
                     " in the tensor container: expected 0 to 7"));
  }
  bytes.remove_prefix(1);

  TINKER_TRY(const std::uint64_t rank, take_varint(bytes));
  std::vector<std::uint64_t> shape;
  for (std::uint64_t i = 0; i < rank; ++i) {  // ends at the last byte, whatever rank claims
    TINKER_TRY(const std::uint64_t dimension, take_varint(bytes));
    shape.push_back(dimension);
  }
  return shape;
}

}  // namespace tinker
