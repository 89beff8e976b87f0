#include "wire/proto_tensor.h"

#include "wire/proto.h"

namespace tinker::wire {
namespace {

/// Converts each narrow element; both widths are read in place, of any alignment.
template <typename Wide, typename Narrow, typename Widen>
Buffer<Wide> widen(std::span<const std::byte> bytes, Widen one) {
  const auto narrow = Buffer<Narrow>::view(bytes, nullptr);
  std::vector<Wide> wide;
  wide.reserve(narrow.size());
  for (const Narrow element : narrow) wide.push_back(one(element));
  return wide;
}

template <typename T>
bool view_elements(std::string_view bytes, Buffer<T>& out, ProtoDecoder& decoder) {
  if (bytes.size() % sizeof(T) != 0) {
    return decoder.fail(base::concat(
        "expected whole elements of ", sizeof(T), " bytes, found ", bytes.size(), " bytes"));
  }
  out = Buffer<T>::view(as_byte_span(bytes), decoder.body());
  return true;
}

struct CsrBytes {
  std::string_view values = {};
  std::string_view crow = {};
  std::string_view col = {};
};

bool read_csr_bytes(pbf_reader reader, CsrBytes& out, ProtoDecoder& decoder) {
  while (reader.next()) {
    const bool bytes = reader.wire_type() == pbf_wire_type::length_delimited;
    if (bytes && reader.tag() >= 1 && reader.tag() <= 3) {
      std::string_view& field = reader.tag() == 1   ? out.values
                                : reader.tag() == 2 ? out.crow
                                                    : out.col;
      const auto view = reader.get_view();
      field = {view.data(), view.size()};
    } else if (!read_unknown_field(
                   reader, decoder.is_response() ? Members::open : Members::exact, decoder)) {
      return false;
    }
  }
  return true;
}

/// The fields of a Tensor message as they came.
struct TensorFields {
  std::string_view dense = {};
  std::optional<CsrBytes> csr = {};  // the oneof: setting one arm clears the other
  std::int32_t dtype = 0;
  std::vector<std::int64_t> shape = {};
};

bool read_tensor_fields(pbf_reader reader, TensorFields& out, ProtoDecoder& decoder) {
  while (reader.next()) {
    const auto type = reader.wire_type();
    if (reader.tag() == 1 && type == pbf_wire_type::length_delimited) {
      const auto view = reader.get_view();
      out.dense = {view.data(), view.size()};
      out.csr.reset();
    } else if (reader.tag() == 2 && type == pbf_wire_type::length_delimited) {
      const Path::Step step(decoder.path(), "sparse_csr");
      out.dense = {};
      if (!read_csr_bytes(reader.get_message(), out.csr ? *out.csr : out.csr.emplace(), decoder)) {
        return false;
      }
    } else if (reader.tag() == 3 && type == pbf_wire_type::varint) {
      out.dtype = reader.get_enum();
    } else if (reader.tag() != 4 || !read_shape(reader, out.shape)) {
      const Members members = decoder.is_response() ? Members::open : Members::exact;
      if (!read_unknown_field(reader, members, decoder)) return false;
    }
  }
  return true;
}

}  // namespace

bool read_elements(std::string_view bytes,
                   ProtoDtype dtype,
                   TensorData::Values& out,
                   ProtoDecoder& decoder) {
  switch (dtype) {
    case ProtoDtype::float32: return view_elements(bytes, out.emplace<Buffer<float>>(), decoder);
    case ProtoDtype::int64:
      return view_elements(bytes, out.emplace<Buffer<std::int64_t>>(), decoder);
    case ProtoDtype::int32: {
      Buffer<std::int32_t> narrow;
      if (!view_elements(bytes, narrow, decoder)) return false;
      out = widen<std::int64_t, std::int32_t>(narrow.bytes(),
                                              [](std::int32_t v) { return std::int64_t{v}; });
      return true;
    }
    case ProtoDtype::bfloat16: {
      Buffer<std::uint16_t> narrow;
      if (!view_elements(bytes, narrow, decoder)) return false;
      out = widen<float, std::uint16_t>(narrow.bytes(), [](std::uint16_t v) {
        return std::bit_cast<float>(std::uint32_t{v} << 16U);
      });
      return true;
    }
    case ProtoDtype::unspecified: break;
  }
  const Path::Step step(decoder.path(), "dtype");
  return decoder.fail(
      base::concat("expected 1 (float32), 2 (int64), 3 (int32) or 4 (bfloat16), found ",
                   static_cast<std::int32_t>(dtype)));
}

bool read_shape(pbf_reader& reader, std::vector<std::int64_t>& out) {
  if (reader.wire_type() == pbf_wire_type::varint) {
    out.push_back(reader.get_int64());
    return true;
  }
  if (reader.wire_type() != pbf_wire_type::length_delimited) return false;
  for (const std::int64_t dimension : reader.get_packed_int64()) out.push_back(dimension);
  return true;
}

bool read_tensor(pbf_reader reader, TensorData& out, ProtoDecoder& decoder) {
  TensorFields fields;
  TensorData::Values values;
  if (!read_tensor_fields(reader, fields, decoder)) return false;
  const std::string_view bytes = fields.csr ? fields.csr->values : fields.dense;
  if (!read_elements(bytes, static_cast<ProtoDtype>(fields.dtype), values, decoder)) return false;

  // A scalar and a tensor without a shape look alike: requests mean 1-D (PROTOBUF 3.1), answers a
  // scalar (4.1).
  std::optional<TensorData::Shape> shape;
  if (!fields.shape.empty() || (decoder.is_response() && !fields.csr)) {
    shape = std::move(fields.shape);
  }
  if (fields.csr) {
    CsrIndices indices;
    if (!view_elements(fields.csr->crow, indices.crow, decoder) ||
        !view_elements(fields.csr->col, indices.col, decoder)) {
      return false;
    }
    out = TensorData(std::move(values), std::move(shape), std::move(indices));
    return true;
  }
  out = TensorData(std::move(values), std::move(shape));
  const Path::Step step(decoder.path(), "shape");
  const auto ok = out.validate();
  return ok || decoder.fail(ok.error().message);
}

bool ProtoCodec<std::map<std::string, TensorData, std::less<>>>::read(pbf_reader& reader,
                                                                      Map& out,
                                                                      ProtoDecoder& decoder) {
  std::string key;
  std::optional<TensorData> value;
  if (!read_map_entry<ProtoCodec<std::optional<TensorData>>>(
          reader.get_message(), key, value, Members::closed, decoder)) {
    return false;
  }
  if (!value) {
    const Path::Step step(decoder.path(), key);
    return decoder.fail("expected a tensor, found none");
  }
  out.insert_or_assign(std::move(key), *std::move(value));
  return true;
}

Result<std::string> encode_proto(const TensorData& tensor) {
  return encode_message([&](auto& writer) { write_tensor(writer, tensor); });
}

template <>
Result<TensorData> decode_proto(std::string body, DecodeOptions options) {
  return decode_message<TensorData>(std::move(body), Direction::request, options, read_tensor);
}

}  // namespace tinker::wire
