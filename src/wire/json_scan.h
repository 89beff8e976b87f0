#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tinker::wire {

/// What a slow, careful reader finds in a text that the parser refused.
struct JsonDiagnosis {
  /// Where it goes wrong and what was expected there: "prompt.chunks[0]: expected a value".
  std::optional<std::string> problem = {};
  /// The text with every integer beyond 64 bits written as a float, when those were all that was
  /// wrong. Members that are no 64-bit integers can then be read, and the others refused by name.
  std::optional<std::string> repaired = {};
};

JsonDiagnosis diagnose_json(std::string_view text);

}  // namespace tinker::wire
