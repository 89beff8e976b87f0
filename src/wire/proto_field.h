#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

#include "base/strings.h"
#include "tinker/types/open_enum.h"
#include "wire/decoder.h"
#include "wire/proto_writer.h"
#include "wire/schema.h"
#include "wire/utf8.h"

namespace tinker::wire {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

/// A decoder that knows who owns the bytes, so that tensors can refer to them.
class ProtoDecoder : public Decoder {
 public:
  ProtoDecoder(Direction direction, DecodeOptions options, std::shared_ptr<const std::string> body)
      : Decoder(direction, options), body_(std::move(body)) {}

  [[nodiscard]] const std::shared_ptr<const std::string>& body() const noexcept { return body_; }
  /// Set once the newer form of the loss config was met, which then counts alone.
  bool loss_config_v2 = false;

 private:
  std::shared_ptr<const std::string> body_;
};

/// How a struct member of type `T` is written as a field and read from one occurrence of it:
/// `kWireType`, `write(writer, number, value)` (which leaves out proto3 defaults) and
/// `read(reader, value, decoder)`.
template <typename T>
struct ProtoCodec;

/// The fields of a message, for both directions: specialisations have `kMembers` and a tuple
/// `kFields` of `proto_field<number, &T::member>("name")`.
template <typename T>
struct ProtoMessage;

template <std::uint32_t kFieldNumber, auto kFieldMember, typename FieldCodec>
struct ProtoField {
  static constexpr std::uint32_t kNumber = kFieldNumber;
  static constexpr auto kMember = kFieldMember;
  using Codec = FieldCodec;

  std::string_view name;
};

template <std::uint32_t kNumber,
          auto kMember,
          typename Codec = ProtoCodec<typename detail::MemberOf<decltype(kMember)>::Type>>
constexpr ProtoField<kNumber, kMember, Codec> proto_field(std::string_view name) {
  return {name};
}

template <typename T, typename Sink>
void write_fields(ProtoWriter<Sink>& writer, const T& message) {
  std::apply(
      [&](const auto&... field) {
        (
            [&]<typename Field>(const Field& f) {
              const Path::Step step(writer.path(), f.name);
              Field::Codec::write(writer, Field::kNumber, message.*Field::kMember);
            }(field),
            ...);
      },
      ProtoMessage<T>::kFields);
}

/// Passes over, reports or refuses a field the message does not list (or whose wire type is wrong,
/// which protobuf treats alike).
bool read_unknown_field(pbf_reader& reader, Members members, ProtoDecoder& decoder);

template <typename T>
bool read_fields(pbf_reader reader, T& message, ProtoDecoder& decoder) {
  while (reader.next()) {
    bool known = false;
    bool ok = true;
    std::apply(
        [&](const auto&... field) {
          const auto try_field = [&]<typename Field>(const Field& f) {
            if (reader.tag() != Field::kNumber || reader.wire_type() != Field::Codec::kWireType) {
              return false;
            }
            known = true;
            const Path::Step step(decoder.path(), f.name);
            ok = Field::Codec::read(reader, message.*Field::kMember, decoder);
            return true;
          };
          (try_field(field) || ...);
        },
        ProtoMessage<T>::kFields);
    if (!known) ok = read_unknown_field(reader, ProtoMessage<T>::kMembers, decoder);
    if (!ok) return false;
  }
  return true;
}

/// `read` on the whole body, with the reader's exceptions turned into an error.
template <typename T>
Result<T> decode_message(std::string body,
                         Direction direction,
                         DecodeOptions options,
                         bool (*read)(pbf_reader, T&, ProtoDecoder&)) {
  const auto owner = std::make_shared<const std::string>(std::move(body));
  ProtoDecoder decoder(direction, options, owner);
  T out;
  try {
    if (read(pbf_reader(*owner), out, decoder)) return out;
  } catch (const protozero::exception& e) {
    decoder.fail(
        base::concat("expected a protobuf message, found a malformed one (", e.what(), ")"));
  } catch (const std::bad_alloc&) {
    decoder.fail("expected a message that fits into memory");
  }
  return std::move(decoder).take_error();
}

// ---- Codecs

inline std::span<const std::byte> as_byte_span(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// `string`: UTF-8, left out when empty.
template <>
struct ProtoCodec<std::string> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, std::string_view value) {
    if (!is_utf8(value)) writer.errors().fail("expected UTF-8 text");
    if (!value.empty()) writer.bytes(number, as_byte_span(value));
  }
  static bool read(pbf_reader& reader, std::string& out, ProtoDecoder& decoder) {
    out = reader.get_string();
    return is_utf8(out) || decoder.fail("expected UTF-8 text");
  }
};

/// `bytes`, left out when empty.
struct ProtoBytes {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, std::string_view value) {
    if (!value.empty()) writer.bytes(number, as_byte_span(value));
  }
  static bool read(pbf_reader& reader, std::string& out, ProtoDecoder&) {
    out = reader.get_bytes();
    return true;
  }
};

/// `bytes` that hold an array in memory order, left out when empty. With `kCut`, bytes behind the
/// last whole element are dropped instead of refused.
template <typename T, bool kCut = false>
struct ProtoArray {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const std::vector<T>& value) {
    if (!value.empty()) writer.bytes(number, std::as_bytes(std::span(value)));
  }
  static bool read(pbf_reader& reader, std::vector<T>& out, ProtoDecoder& decoder) {
    const auto view = reader.get_view();
    if (!kCut && view.size() % sizeof(T) != 0) {
      return decoder.fail(base::concat(
          "expected whole elements of ", sizeof(T), " bytes, found ", view.size(), " bytes"));
    }
    out.resize(view.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), view.data(), out.size() * sizeof(T));
    return true;
  }
};
template <>
struct ProtoCodec<std::vector<std::int32_t>> : ProtoArray<std::int32_t> {};
template <>
struct ProtoCodec<std::vector<float>> : ProtoArray<float> {};

template <>
struct ProtoCodec<bool> {
  static constexpr auto kWireType = pbf_wire_type::varint;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, bool value) {
    if (value) writer.varint(number, 1);
  }
  static bool read(pbf_reader& reader, bool& out, ProtoDecoder&) {
    out = reader.get_uint64() != 0;
    return true;
  }
};

/// `int32`, `int64`, `uint32`: the same varints, bounded by `Wire`; 0 is left out.
template <typename Wire, typename T>
struct ProtoInteger {
  static constexpr auto kWireType = pbf_wire_type::varint;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, T value) {
    if (!std::in_range<Wire>(value)) {
      writer.errors().fail(
          base::concat("expected an integer of ", sizeof(Wire) * 8, " bits, found ", value));
    }
    if (value != 0) writer.varint(number, static_cast<std::uint64_t>(value));
  }
  static bool read(pbf_reader& reader, T& out, ProtoDecoder&) {
    out = static_cast<T>(static_cast<Wire>(reader.get_uint64()));  // protobuf truncates, too
    return true;
  }
};
template <>
struct ProtoCodec<std::int32_t> : ProtoInteger<std::int32_t, std::int32_t> {};
template <>
struct ProtoCodec<std::int64_t> : ProtoInteger<std::int64_t, std::int64_t> {};
template <>
struct ProtoCodec<std::uint32_t> : ProtoInteger<std::uint32_t, std::uint32_t> {};

/// `optional int32`: 0 is written.
struct ProtoOptionalInt32 {
  static constexpr auto kWireType = pbf_wire_type::varint;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer,
                    std::uint32_t number,
                    const std::optional<std::int64_t>& value) {
    if (value == 0) return writer.varint(number, 0);
    if (value) ProtoInteger<std::int32_t, std::int64_t>::write(writer, number, *value);
  }
  static bool read(pbf_reader& reader, std::optional<std::int64_t>& out, ProtoDecoder& decoder) {
    return ProtoInteger<std::int32_t, std::int64_t>::read(reader, out.emplace(), decoder);
  }
};

/// An open enum that travels by name.
template <WireEnum E>
struct ProtoCodec<OpenEnum<E>> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const OpenEnum<E>& value) {
    ProtoCodec<std::string>::write(writer, number, value.text());
  }
  static bool read(pbf_reader& reader, OpenEnum<E>& out, ProtoDecoder& decoder) {
    std::string text;
    if (!ProtoCodec<std::string>::read(reader, text, decoder)) return false;
    out = OpenEnum<E>::parse(text);
    return true;
  }
};

/// A nested message. Types with a `ProtoMessage` description get it from there.
template <typename T>
struct ProtoCodec {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const T& value) {
    writer.message(number, [&](auto& nested) { write_fields(nested, value); });
  }
  static bool read(pbf_reader& reader, T& out, ProtoDecoder& decoder) {
    return read_fields(reader.get_message(), out, decoder);
  }
};

/// A message that may be absent.
template <typename T>
struct ProtoCodec<std::optional<T>> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer,
                    std::uint32_t number,
                    const std::optional<T>& value) {
    if (value) ProtoCodec<T>::write(writer, number, *value);
  }
  static bool read(pbf_reader& reader, std::optional<T>& out, ProtoDecoder& decoder) {
    return ProtoCodec<T>::read(reader, out ? *out : out.emplace(), decoder);
  }
};

/// `repeated`.
template <typename T>
struct ProtoCodec<std::vector<T>> {
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Path::Step step(writer.path(), i);
      ProtoCodec<T>::write(writer, number, values[i]);
    }
  }
  static bool read(pbf_reader& reader, std::vector<T>& out, ProtoDecoder& decoder) {
    const Path::Step step(decoder.path(), out.size());
    return ProtoCodec<T>::read(reader, out.emplace_back(), decoder);
  }
};

/// `double` as a map's value: written also when 0.
struct ProtoDouble {
  static constexpr auto kWireType = pbf_wire_type::fixed64;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, double value) {
    writer.fixed64(number, value);
  }
  static bool read(pbf_reader& reader, double& out, ProtoDecoder&) {
    out = reader.get_double();
    return true;
  }
};

/// Reads one entry of a `map<string, V>`: the key, and the value by `ValueCodec` if there is one.
template <typename ValueCodec, typename V>
bool read_map_entry(
    pbf_reader entry, std::string& key, V& value, Members members, ProtoDecoder& decoder) {
  // The key is part of the value's path, so it is read first, wherever it stands.
  for (pbf_reader keys = entry; keys.next();) {
    if (keys.tag() != 1 || keys.wire_type() != pbf_wire_type::length_delimited) {
      keys.skip();
    } else if (!ProtoCodec<std::string>::read(keys, key, decoder)) {
      return false;
    }
  }
  const Path::Step step(decoder.path(), key);
  while (entry.next()) {
    bool ok = true;
    if (entry.tag() == 2 && entry.wire_type() == ValueCodec::kWireType) {
      ok = ValueCodec::read(entry, value, decoder);
    } else if (entry.tag() == 1 && entry.wire_type() == pbf_wire_type::length_delimited) {
      entry.skip();
    } else {
      ok = read_unknown_field(entry, members, decoder);
    }
    if (!ok) return false;
  }
  return true;
}

/// `map<string, V>` of an answer.
template <typename V, typename ValueCodec = ProtoCodec<V>>
struct ProtoMap {
  using Map = std::map<std::string, V, std::less<>>;
  static constexpr auto kWireType = pbf_wire_type::length_delimited;

  template <typename Sink>
  static void write(ProtoWriter<Sink>& writer, std::uint32_t number, const Map& map) {
    for (const auto& item : map) {
      const Path::Step step(writer.path(), item.first);
      writer.message(number, [&](auto& entry) {
        ProtoCodec<std::string>::write(entry, 1, item.first);
        ValueCodec::write(entry, 2, item.second);
      });
    }
  }
  static bool read(pbf_reader& reader, Map& out, ProtoDecoder& decoder) {
    std::string key;
    V value = {};
    if (!read_map_entry<ValueCodec>(reader.get_message(), key, value, Members::open, decoder)) {
      return false;
    }
    out.insert_or_assign(std::move(key), std::move(value));
    return true;
  }
};
template <typename V>
struct ProtoCodec<std::map<std::string, V, std::less<>>> : ProtoMap<V> {};
template <>
struct ProtoCodec<std::map<std::string, double, std::less<>>> : ProtoMap<double, ProtoDouble> {};

}  // namespace tinker::wire
