#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tokenizer/automaton.h"
#include "tokenizer/pattern_program.h"
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
                                         Scratch& scratch) const {
    for (std::size_t at = from; at < text.size(); at += decode_at(text, at).size) {
      const std::size_t end =
          automaton_ ? automaton_->match(text, at) : match_here(text, at, scratch);
      if (end > at) return Span{.begin = at, .end = end};
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kNoMatch = std::numeric_limits<std::size_t>::max();
  using Kind = PatternOp::Kind;

  explicit Pattern(PatternProgram program);

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
  /// Where the match at `at` ends; `at` when there is none.
  std::size_t match_here(std::string_view text, std::size_t at, Scratch& scratch) const;
  [[nodiscard]] bool run_loop(std::string_view text,
                              std::size_t& at,
                              std::uint32_t op,
                              Scratch& scratch) const;
  [[nodiscard]] bool holds(std::string_view text, std::size_t at, Kind kind) const noexcept;

  // Each character is read once, or, where that is not possible, by going back.
  std::optional<Automaton> automaton_;
  std::vector<PatternOp> ops_;
  std::vector<CodePointTable> sets_;
  std::vector<std::uint32_t> alternatives_;  // where each begins
};

class Pattern::Scratch {
  friend class Pattern;
  std::vector<Choice> choices_;
};

}  // namespace tinker::tokenizer
