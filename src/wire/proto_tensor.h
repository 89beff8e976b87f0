#pragma once

#include "tinker/types/sample.h"
#include "tinker/types/tensor_data.h"
#include "wire/proto_field.h"

namespace tinker::wire {

/// Element types as the binary protocol numbers them.
enum class ProtoDtype : std::int32_t { unspecified, float32, int64, int32, bfloat16 };

constexpr ProtoDtype proto_dtype(TensorDtype dtype) {
  return dtype == TensorDtype::float32 ? ProtoDtype::float32 : ProtoDtype::int64;
}

/// Bytes per element; 1 for what is no element type.
constexpr std::int64_t element_size(ProtoDtype dtype) {
  switch (dtype) {
    case ProtoDtype::float32:
    case ProtoDtype::int32: return 4;
    case ProtoDtype::int64: return 8;
    case ProtoDtype::bfloat16: return 2;
    case ProtoDtype::unspecified: break;
  }
  return 1;
}

/// Reads an array of any of the four element types: the narrow ones widened, the others referring
/// to the message (PROTOBUF 5.3).
bool read_elements(std::string_view bytes,
                   ProtoDtype dtype,
                   TensorData::Values& out,
                   ProtoDecoder& decoder);

/// `repeated int64`, packed or not.
bool read_shape(pbf_reader& reader, std::vector<std::int64_t>& out);

template <typename Sink>
void write_shape(ProtoWriter<Sink>& writer,
                 std::uint32_t number,
                 std::span<const std::int64_t> shape) {
  if (shape.empty()) return;
  CountingSink size;
  for (const auto dimension : shape) size.varint(static_cast<std::uint64_t>(dimension));
  writer.length(number, size.size);
  for (const auto dimension : shape) writer.raw_varint(static_cast<std::uint64_t>(dimension));
}

inline std::span<const std::byte> bytes_of(const TensorData& tensor) {
  return std::visit([](const auto& values) { return values.bytes(); }, tensor.values());
}

bool read_tensor(pbf_reader reader, TensorData& out, ProtoDecoder& decoder);

template <typename Sink>
void write_tensor(ProtoWriter<Sink>& writer, const TensorData& tensor) {
  if (const auto* indices = tensor.indices()) {
    writer.message(2, [&](auto& csr) {
      const auto add = [&](std::uint32_t number, std::span<const std::byte> bytes) {
        if (!bytes.empty()) csr.bytes(number, bytes);
      };
      add(1, bytes_of(tensor));
      add(2, indices->crow.bytes());
      add(3, indices->col.bytes());
    });
  } else {
    // Indices are the receiver's to check; a shape that does not fit would be read as another
    // tensor.
    if (const auto ok = tensor.validate(); !ok) {
      const Path::Step step(writer.path(), "shape");
      writer.errors().fail(ok.error().message);
    }
    writer.bytes(1, bytes_of(tensor));
  }
  writer.varint(3, static_cast<std::uint64_t>(proto_dtype(tensor.dtype())));
  if (const auto& shape = tensor.shape()) write_shape(writer, 4, *shape);
}

template <>
struct ProtoCodec<TensorData> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const TensorData& tensor) {
    writer.message(number, [&](auto& nested) { write_tensor(nested, tensor); });
  }
  static bool read(pbf_reader& reader, TensorData& out, ProtoDecoder& decoder) {
    return read_tensor(reader.get_message(), out, decoder);
  }
};

/// A map entry without a value is an empty Tensor message, not the struct's default.
template <>
struct ProtoCodec<std::map<std::string, TensorData, std::less<>>> {
  using Map = std::map<std::string, TensorData, std::less<>>;
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const Map& map) {
    ProtoMap<TensorData>::write(writer, number, map);
  }
  static bool read(pbf_reader& reader, Map& out, ProtoDecoder& decoder);
};

}  // namespace tinker::wire
