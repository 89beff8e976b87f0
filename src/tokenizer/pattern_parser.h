#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pattern_program.h"
#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

/// What a regular expression says.
struct PatternNode {
  enum class Kind : std::uint8_t {
    set,             // one code point of `set`
    sequence,        // all of `parts`
    alternatives,    // the first of `parts` that matches
    repetition,      // of `parts[0]`, from `min` to `max`
    look_ahead,      // for `parts[0]`
    look_ahead_not,  // likewise
    line_begin,
    line_end,
    text_begin,
    text_end,
  };
  Kind kind = Kind::sequence;
  CodePointSet set = {};
  std::vector<PatternNode> parts = {};
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  bool keeps_all = false;  ///< A repetition that gives nothing back.
};

Result<PatternNode> parse_pattern(std::string_view text, Dialect dialect);

}  // namespace tinker::tokenizer
