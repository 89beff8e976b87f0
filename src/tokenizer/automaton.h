#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/pattern_program.h"

namespace tinker::tokenizer {

/// A regular expression that reads each character once, whatever its alternatives: a state stands
/// for all the places where a search that goes back might be, in the order in which it would try
/// them. A step knows the character that comes next, so a look ahead by one is part of it.
///
/// Immutable.
class Automaton {
 public:
  /// Nothing for what needs more than that: a longer look ahead, a group that gives nothing back, a
  /// look at what is before, or very many states.
  static std::optional<Automaton> of(const PatternProgram& program);

  /// Where the match that begins at `from` ends; `from` when there is none.
  [[nodiscard]] std::size_t match(std::string_view text, std::size_t from) const noexcept {
    const Step* const steps = steps_.data();
    std::size_t end = from;
    std::uint32_t state = first_;
    for (std::size_t at = from; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      const Decoded next =
          byte < ascii_.size() ? Decoded{.code_point = byte, .size = 1} : decode_at(text, at);
      const Step step = steps[state + kind_of(next.code_point)];
      end = step.ends_before ? at : end;
      if (step.next == kNowhere) return end;
      state = step.next;
      at += next.size;
    }
    return steps[state + kTextEnd].ends_before ? text.size() : end;
  }

 private:
  friend class AutomatonBuilder;
  static constexpr std::size_t kTextEnd = 0;
  static constexpr std::uint16_t kNowhere = 0;
  static constexpr unsigned kPageBits = 8;

  struct Step {
    std::uint16_t next = kNowhere;  // the index of its first step
    bool ends_before = false;       // the character is behind a match
  };

  [[nodiscard]] std::size_t kind_of(char32_t code_point) const noexcept {
    if (code_point < ascii_.size()) return ascii_[code_point];
    const std::size_t page = pages_[code_point >> kPageBits];
    return kinds_[(page << kPageBits) + (code_point & ((1U << kPageBits) - 1))];
  }

  std::uint32_t first_ = 0;
  std::vector<Step> steps_;  // of each state by the kinds of characters; the state 0 is `kNowhere`
  std::array<std::uint8_t, 0x80> ascii_ = {};  // kinds of characters
  std::vector<std::uint16_t> pages_;           // of code points: their numbers in `kinds_`
  std::vector<std::uint8_t> kinds_;
};

}  // namespace tinker::tokenizer
