#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/open_enum.h"

namespace tinker {

/// Token ids, as a tokenizer gives them.
struct EncodedTextChunk {
  std::vector<std::int32_t> tokens = {};

  friend bool operator==(const EncodedTextChunk&, const EncodedTextChunk&) = default;
};

enum class ImageFormat { png, jpeg };
template <>
inline constexpr std::array<std::string_view, 2> detail::kEnumNames<ImageFormat> = {"png", "jpeg"};

struct ImageDimensions {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  friend bool operator==(const ImageDimensions&, const ImageDimensions&) = default;
};

/// An image by value.
struct ImageChunk {
  std::string data = {};  ///< The bytes of the file.
  ImageFormat format = ImageFormat::png;
  /// How many tokens the image stands for; needed to know a model input's length. A server checks
  /// it.
  std::optional<std::int64_t> expected_tokens = {};
  /// Declared by the binary protocol, sent by no official client; JSON has no place for it.
  std::optional<ImageDimensions> override_dimensions = {};

  friend bool operator==(const ImageChunk&, const ImageChunk&) = default;
};

/// An image by address. For sampling only: training requests refuse it.
struct ImageAssetPointerChunk {
  ImageFormat format = ImageFormat::png;
  std::string location = {};
  std::optional<std::int64_t> expected_tokens = {};

  friend bool operator==(const ImageAssetPointerChunk&, const ImageAssetPointerChunk&) = default;
};

/// Audio tokens: the bytes of a serialized tensor container (`tensor_container_shape`).
struct DmelChunk {
  std::string dmel = {};

  friend bool operator==(const DmelChunk&, const DmelChunk&) = default;
};

using ModelInputChunk =
    std::variant<EncodedTextChunk, ImageAssetPointerChunk, ImageChunk, DmelChunk>;

/// What a model reads: text and other media in order.
///
///     auto prompt = ModelInput::from_tokens({9906, 11});
///     prompt.append(ImageChunk{.data = png, .expected_tokens = 64}).append_token(13);
///
/// Thread-compatible.
struct ModelInput {
  std::vector<ModelInputChunk> chunks = {};

  static ModelInput from_tokens(std::vector<std::int32_t> tokens);

  ModelInput& append(ModelInputChunk chunk);
  /// Adds to the last chunk when that is text, else starts a new one. Amortised constant time.
  ModelInput& append_token(std::int32_t token);

  /// Positions in the model's context. An error when an image has no `expected_tokens` or a dmel
  /// chunk no readable header.
  [[nodiscard]] Result<std::int64_t> length() const;
  /// All tokens in order; an error when a chunk is not text.
  [[nodiscard]] Result<std::vector<std::int32_t>> to_tokens() const;

  friend bool operator==(const ModelInput&, const ModelInput&) = default;
};

/// The dimensions in the header of a serialized tensor container (PROTOBUF 6); the payload is not
/// looked at.
Result<std::vector<std::uint64_t>> tensor_container_shape(std::string_view bytes);

}  // namespace tinker
