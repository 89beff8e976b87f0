#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

/// Of repetitions.
inline constexpr std::uint32_t kNoLimit = 0xFFFFFFFF;

/// A step of a regular expression.
struct PatternOp {
  enum class Kind : std::uint8_t {
    accept,          // of the whole, or of what is looked ahead for
    loop,            // from `min` to `max` of `set`, as many as there are
    split,           // goes on with the next, else at `target`
    jump,            // to `target`
    look_ahead,      // until `accept`; goes on at `target`
    look_ahead_not,  // likewise
    atomic,          // likewise, and takes what it found
    line_begin,
    line_end,
    text_begin,
    text_end,
  };
  Kind kind = Kind::accept;
  bool keeps_all = false;  // a loop that gives nothing back
  std::uint16_t set = 0;
  std::uint32_t target = 0;
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

/// A regular expression as steps.
struct PatternProgram {
  std::vector<PatternOp> ops = {};
  std::vector<CodePointSet> sets = {};
  std::vector<std::uint32_t> alternatives =
      {};  ///< Where each begins; the first that matches counts.
};

}  // namespace tinker::tokenizer
