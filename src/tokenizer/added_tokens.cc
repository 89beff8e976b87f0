#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

std::uint32_t AddedTokens::child_of(std::uint32_t node, char byte) const noexcept {
  std::uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

void AddedTokens::add(AddedToken token) {
  if (token.content.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : token.content) {
    std::uint32_t child = child_of(node, byte);
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.byte = byte, .sibling = nodes_[node].child});
      nodes_[node].child = child;
    }
    node = child;
  }
  begins_[static_cast<unsigned char>(token.content[0])] = true;
  is_one_begin_ &= tokens_.empty() || tokens_[0].content[0] == token.content[0];
  tokens_.push_back(std::move(token));
  nodes_[node].token = static_cast<std::uint32_t>(tokens_.size());
}

std::size_t AddedTokens::next_begin(std::string_view text, std::size_t from) const noexcept {
  if (tokens_.empty()) return text.size();
  if (is_one_begin_) return std::min(text.find(tokens_[0].content[0], from), text.size());
  while (from < text.size() && !begins_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

AddedTokens::Match AddedTokens::find(std::string_view text,
                                     std::size_t from,
                                     bool skips_special) const {
  for (std::size_t at = next_begin(text, from); at < text.size(); at = next_begin(text, at)) {
    const AddedToken* longest = nullptr;
    std::uint32_t node = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
      node = child_of(node, text[i]);
      if (node == 0) break;
      if (nodes_[node].token != 0) longest = &tokens_[nodes_[node].token - 1];
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    Match match = {.begin = at, .end = at + longest->content.size(), .token = longest};
    if (skips_special && longest->is_special) {
      at = match.end;
      continue;
    }
    const auto& space = CodePointSet::space();
    if (longest->strips_left) {
      std::size_t begin = from;  // of the white space that ends here
      for (std::size_t i = from; i < at; i += decode_at(text, i).size) {
        if (!space.contains(decode_at(text, i).code_point)) begin = i + decode_at(text, i).size;
      }
      match.begin = begin;
    }
    if (longest->strips_right) {
      while (match.end < text.size() && space.contains(decode_at(text, match.end).code_point)) {
        match.end += decode_at(text, match.end).size;
      }
    }
    return match;
  }
  return {.begin = text.size(), .end = text.size(), .token = nullptr};
}

}  // namespace tinker::tokenizer
