#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace tinker::tokenizer {

void Split::apply(std::string_view text,
                  Span whole,
                  std::vector<Span>& out,
                  Scratch& scratch) const {
  find_parts(text, whole, scratch);
  switch (options_.behavior) {
    case Behavior::isolated:
      for (const auto& part : scratch.parts_) out.push_back(part.span);
      break;
    case Behavior::removed:
      for (const auto& part : scratch.parts_) {
        if (!part.is_match) out.push_back(part.span);
      }
      break;
    default: merge_parts(scratch.parts_, out);
  }
}

void Split::find_parts(std::string_view text, Span whole, Scratch& scratch) const {
  auto& parts = scratch.parts_;
  parts.clear();
  // A look ahead ends with the piece.
  const auto piece = text.substr(whole.begin, whole.end - whole.begin);
  std::size_t at = 0;
  const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return;
    parts.push_back({.span = {.begin = whole.begin + begin, .end = whole.begin + end},
                     .is_match = is_match != options_.is_inverted});
  };
  while (at < piece.size()) {
    std::optional<Span> found;
    if (const auto* const pattern = std::get_if<Pattern>(&pattern_)) {
      found = pattern->find(piece, at, scratch.search_);
    } else {
      const auto& literal = std::get<std::string>(pattern_);
      const std::size_t begin = piece.find(literal, at);
      if (begin != std::string_view::npos) found = {.begin = begin, .end = begin + literal.size()};
    }
    if (!found) break;
    add(at, found->begin, false);
    add(found->begin, found->end, true);
    at = found->end;
  }
  add(at, piece.size(), false);
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
