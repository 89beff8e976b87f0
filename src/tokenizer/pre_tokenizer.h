#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"

namespace tinker::tokenizer {

/// Cuts text where a pattern matches.
///
/// Immutable.
class Split {
 public:
  /// What becomes of a match.
  enum class Behavior : std::uint8_t {
    isolated,              ///< A piece of its own.
    removed,               ///< Nothing.
    merged_with_previous,  ///< The end of the piece before it.
    merged_with_next,      ///< The beginning of the piece after it.
    contiguous,            ///< One piece with the matches that follow at once.
  };
  struct Options {
    Behavior behavior = Behavior::isolated;
    bool is_inverted = false;  ///< What does not match counts as a match.
  };
  Split(std::variant<Pattern, std::string> pattern, Options options)
      : pattern_(std::move(pattern)), options_(options) {}

  using Span = Pattern::Span;
  class Scratch;

  /// Appends the pieces of `text[whole]`, none of them empty.
  void apply(std::string_view text, Span whole, std::vector<Span>& out, Scratch& scratch) const;

 private:
  struct Part {
    Span span;
    bool is_match;
  };
  /// Calls `f(Part)` for the parts of `text[whole]`, one after the other.
  template <typename F>
  void for_each_part(std::string_view text, Span whole, Scratch& scratch, F f) const;
  void merge_parts(std::vector<Part>& parts, std::vector<Span>& out) const;

  std::variant<Pattern, std::string> pattern_;
  Options options_;
};

class Split::Scratch {
  friend class Split;
  Pattern::Scratch search_;
  std::vector<Part> parts_;
};

/// What cuts text into words: one split after the other, each of all the pieces so far.
///
/// Immutable.
class PreTokenizer {
 public:
  struct Scratch {
    Split::Scratch split = {};
    std::vector<Split::Span> words = {};  ///< The outcome.
    std::vector<Split::Span> others = {};
  };
  void add(Split split) { splits_.push_back(std::move(split)); }
  /// Leaves the words of `text` in `scratch.words`.
  void apply(std::string_view text, Scratch& scratch) const;

 private:
  std::vector<Split> splits_;
};

}  // namespace tinker::tokenizer
