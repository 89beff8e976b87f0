#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace tinker::tokenizer {

template <typename F>
void Split::for_each_part(std::string_view text, Span whole, Scratch& scratch, F f) const {
  // A look ahead ends with the piece.
  const auto piece = text.substr(whole.begin, whole.end - whole.begin);
  const auto give = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return;
    f(Part{.span = {.begin = whole.begin + begin, .end = whole.begin + end},
           .is_match = is_match != options_.is_inverted});
  };
  const auto give_all = [&](auto find) {
    std::size_t at = 0;
    while (const std::optional<Span> found = find(at)) {
      give(at, found->begin, false);
      give(found->begin, found->end, true);
      at = found->end;
    }
    give(at, piece.size(), false);
  };
  if (const auto* const pattern = std::get_if<Pattern>(&pattern_)) {
    return give_all([&](std::size_t at) { return pattern->find(piece, at, scratch.search_); });
  }
  give_all([&, &literal = std::get<std::string>(pattern_)](std::size_t at) {
    const std::size_t begin = piece.find(literal, at);
    return begin == std::string_view::npos
               ? std::nullopt
               : std::optional(Span{.begin = begin, .end = begin + literal.size()});
  });
}

void Split::apply(std::string_view text,
                  Span whole,
                  std::vector<Span>& out,
                  Scratch& scratch) const {
  auto& parts = scratch.parts_;
  switch (options_.behavior) {
    case Behavior::isolated:
      return for_each_part(
          text, whole, scratch, [&out](const Part& part) { out.push_back(part.span); });
    case Behavior::removed:
      return for_each_part(text, whole, scratch, [&out](const Part& part) {
        if (!part.is_match) out.push_back(part.span);
      });
    default:
      parts.clear();
      for_each_part(text, whole, scratch, [&parts](const Part& part) { parts.push_back(part); });
      merge_parts(parts, out);
  }
}

void Split::merge_parts(std::vector<Part>& parts, std::vector<Span>& out) const {
  const bool is_backward = options_.behavior == Behavior::merged_with_next;
  if (is_backward) std::ranges::reverse(parts);
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  const Part* previous = nullptr;
  for (const auto& part : parts) {
    const bool is_match_after_other = part.is_match && previous != nullptr && !previous->is_match;
    const bool is_same = previous != nullptr && previous->is_match == part.is_match;
    const bool is_merged =
        options_.behavior == Behavior::contiguous ? is_same : is_match_after_other;
    if (!is_merged) {
      out.push_back(part.span);
    } else if (is_backward) {
      out.back().begin = part.span.begin;
    } else {
      out.back().end = part.span.end;
    }
    previous = &part;
  }
  if (is_backward) std::reverse(out.begin() + first, out.end());
}

void PreTokenizer::apply(std::string_view text, Scratch& scratch) const {
  scratch.words.clear();
  if (!text.empty()) scratch.words.push_back({.begin = 0, .end = text.size()});
  for (const auto& split : splits_) {
    std::swap(scratch.words, scratch.others);
    scratch.words.clear();
    for (const auto& span : scratch.others) split.apply(text, span, scratch.words, scratch.split);
  }
}

}  // namespace tinker::tokenizer
