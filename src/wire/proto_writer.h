#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <protozero/buffer_string.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>

#include "base/strings.h"
#include "tinker/result.h"
#include "wire/path.h"

namespace tinker::wire {

// Arrays travel as raw memory, and the wire is little-endian (PROTOBUF 2).
static_assert(std::endian::native == std::endian::little,
              "big-endian hosts need byte swapping here");

/// Where the encoder is, and what went wrong first.
class ProtoErrors {
 public:
  void fail(std::string message) {
    if (error_) return;
    error_ = Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat(path_.to_string(), ": ", message)};
  }
  [[nodiscard]] Path& path() noexcept { return path_; }
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  Path path_;
  std::optional<Error> error_;
};

/// Adds up what would be written.
struct CountingSink {
  std::size_t size = 0;

  void varint(std::uint64_t value) {
    size += static_cast<std::size_t>(protozero::length_of_varint(value));
  }
  void raw(const void*, std::size_t count) { size += count; }
};

/// Writes at the end of a buffer that was reserved in full.
struct StringSink {
  std::string out = {};

  void varint(std::uint64_t value) { protozero::add_varint_to_buffer(&out, value); }
  void raw(const void* data, std::size_t count) {
    if (count > 0) out.append(static_cast<const char*>(data), count);
  }
};

/// Writes fields of one message. Lengths are known before contents are written, so nothing moves:
/// every message is walked once by a `CountingSink`, then written.
template <typename Sink>
class ProtoWriter {
 public:
  ProtoWriter(Sink& sink, ProtoErrors& errors) : sink_(sink), errors_(errors) {}

  void varint(std::uint32_t number, std::uint64_t value) {
    tag(number, protozero::pbf_wire_type::varint);
    sink_.varint(value);
  }
  void fixed64(std::uint32_t number, double value) {
    tag(number, protozero::pbf_wire_type::fixed64);
    sink_.raw(&value, sizeof(value));
  }
  /// Announces `size` bytes, to be written with `raw` or by a nested message.
  void length(std::uint32_t number, std::size_t size) {
    tag(number, protozero::pbf_wire_type::length_delimited);
    sink_.varint(size);
  }
  void bytes(std::uint32_t number, std::span<const std::byte> data) {
    length(number, data.size());
    raw(data);
  }
  void raw(std::span<const std::byte> data) { sink_.raw(data.data(), data.size()); }
  void raw_varint(std::uint64_t value) { sink_.varint(value); }

  /// A nested message, which `write` writes to the writer it is given.
  template <typename Write>
  void message(std::uint32_t number, Write write) {
    CountingSink counter;
    ProtoWriter<CountingSink> counting(counter, errors_);
    write(counting);
    length(number, counter.size);
    if constexpr (std::is_same_v<Sink, CountingSink>) {
      sink_.size += counter.size;
    } else {
      write(*this);
    }
  }

  [[nodiscard]] ProtoErrors& errors() noexcept { return errors_; }
  [[nodiscard]] Path& path() noexcept { return errors_.path(); }

 private:
  void tag(std::uint32_t number, protozero::pbf_wire_type type) {
    sink_.varint(number << 3U | static_cast<std::uint32_t>(type));
  }

  Sink& sink_;
  ProtoErrors& errors_;
};

/// A whole message in one allocation.
template <typename Write>
Result<std::string> encode_message(Write write) {
  ProtoErrors errors;
  CountingSink counter;
  ProtoWriter<CountingSink> counting(counter, errors);
  write(counting);
  if (const auto& error = errors.error()) return *error;
  StringSink sink;
  sink.out.reserve(counter.size);
  ProtoWriter<StringSink> writing(sink, errors);
  write(writing);
  return std::move(sink.out);
}

}  // namespace tinker::wire
