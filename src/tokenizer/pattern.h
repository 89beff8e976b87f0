#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

/// Whose regular expressions: the libraries read a few things differently.
enum class Dialect : std::uint8_t {
  oniguruma,  ///< `tokenizers`: `^` and `$` are ends of lines, `x{1,3}+` repeats `x{1,3}`.
  rust,       ///< `tiktoken`: ends of the text, and `x{1,3}+` gives nothing back.
};

/// A regular expression of the kind that splits text into words: alternatives of character classes
/// with repetitions, groups, and a look ahead. What it does not know it refuses by name.
///
/// Immutable.
class Pattern {
 public:
  struct Span {
    std::size_t begin;
    std::size_t end;
  };
  /// Room for a search, to be used again.
  class Scratch;

  static Result<Pattern> compile(std::string_view text, Dialect dialect);

  /// The first match at `from` or later that is not empty.
  [[nodiscard]] std::optional<Span> find(std::string_view text,
                                         std::size_t from,
                                         Scratch& scratch) const;

 private:
  friend class PatternCompiler;
  static constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kNoMatch = std::numeric_limits<std::size_t>::max();

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
  struct Op {
    Kind kind = Kind::accept;
    bool keeps_all = false;  // a loop that gives nothing back
    std::uint16_t set = 0;
    std::uint32_t target = 0;
    std::uint32_t min = 1;
    std::uint32_t max = 1;
  };
  /// Where to go on after a failure.
  struct Choice {
    std::uint32_t op;
    std::size_t at;
    std::size_t least;  // a loop may give back down to here
  };

  std::size_t match(std::string_view text,
                    std::size_t at,
                    std::uint32_t op,
                    Scratch& scratch) const;
  std::size_t match_here(std::string_view text, std::size_t at, Scratch& scratch) const;
  [[nodiscard]] bool run_loop(std::string_view text,
                              std::size_t& at,
                              std::uint32_t op,
                              Scratch& scratch) const;
  [[nodiscard]] bool holds(std::string_view text, std::size_t at, Kind kind) const noexcept;

  std::vector<Op> ops_;
  std::vector<CodePointTable> sets_;
  std::vector<std::uint32_t> alternatives_;         // where each begins
  std::array<std::uint32_t, 256> candidates_ = {};  // by the first byte: bits of the alternatives
};

class Pattern::Scratch {
  friend class Pattern;
  std::vector<Choice> choices_;
};

}  // namespace tinker::tokenizer
