#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "wire/decoder.h"

namespace tinker::wire {

enum class Encoding { json, proto };

/// A wire type by name, for tools that learn it at run time.
struct WireType {
  enum class Kind { request, response, value };

  std::string_view name;  ///< The official class name in snake case.
  Kind kind;
  bool has_json;
  bool has_proto;
  /// Reads a document and writes it again as our client (requests) or server (answers) would send
  /// it. Requires that the type has both encodings.
  Result<std::string> (*transcode)(std::string input,
                                   Encoding from,
                                   Encoding to,
                                   DecodeOptions options);
};

/// All of them: requests, answers, values.
std::span<const WireType> wire_types();

/// Null when there is no type of that name.
const WireType* find_wire_type(std::string_view name);

}  // namespace tinker::wire
