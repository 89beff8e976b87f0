#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>
#include <utility>

#include "tokenizer/hash.h"
#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

namespace {

// Up to here the best pair is found by looking at all of them.
constexpr std::size_t kShortWord = 64;

std::size_t hash_pair(TokenId left, TokenId right) noexcept {
  return mix(static_cast<std::uint64_t>(left), static_cast<std::uint64_t>(right));
}

constexpr std::size_t kPairBits = std::size_t{1} << 21U;
constexpr std::size_t kJoinBits = std::size_t{1} << 18U;

bool has_bit(const std::vector<std::uint64_t>& bits, std::size_t bit) noexcept {
  return (bits[bit / 64] >> bit % 64 & 1U) != 0;
}
void set_bit(std::vector<std::uint64_t>& bits, std::size_t bit) noexcept {
  bits[bit / 64] |= std::uint64_t{1} << bit % 64;
}

/// Of other bits of the hash than those that choose a slot.
std::size_t pair_bit(std::size_t hash) noexcept {
  return (hash >> 20U) % kPairBits;
}

std::size_t join_bit(char before, char32_t after) noexcept {
  return mix(static_cast<unsigned char>(before), after) % kJoinBits;
}

std::string fallback_name(std::size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, Options options)
    : vocabulary_(std::move(vocabulary)), options_(options), wholes_(vocabulary_.limit()) {
  add_merges(merges);
  find_byte_tokens();
  if (options_.byte_fallback && !options_.is_byte_level) find_joins(merges);
}

void Bpe::find_byte_tokens() {
  byte_tokens_.fill(kNoToken);
  if (!options_.is_byte_level && !options_.byte_fallback) return;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto name =
        options_.is_byte_level ? std::string(1, static_cast<char>(byte)) : fallback_name(byte);
    byte_tokens_[byte] = vocabulary_.find(name).value_or(kNoToken);
  }
}

bool Bpe::may_join(char before, char32_t after) const noexcept {
  return has_bit(joins_, join_bit(before, after));
}

void Bpe::find_joins(const std::vector<Merge>& merges) {
  // A token that stands for a byte of a character is spelled in other characters.
  const auto is_byte = [this](TokenId id) { return std::ranges::count(byte_tokens_, id) > 0; };
  if (std::ranges::any_of(merges,
                          [&](const Merge& m) { return is_byte(m.left) || is_byte(m.right); })) {
    return;
  }
  joins_.resize(kJoinBits / 64);
  for (std::size_t id = 0; id < vocabulary_.limit(); ++id) {
    const auto token = vocabulary_.bytes(static_cast<TokenId>(id));
    for (std::size_t at = 0; at < token.size();) {
      const auto [code_point, size] = decode_at(token, at);
      if (at > 0) set_bit(joins_, join_bit(token[at - 1], code_point));
      at += size;
    }
  }
}

/// The last of two for the same pair counts, as in the library.
void Bpe::add_merges(const std::vector<Merge>& merges) {
  slots_.resize(std::bit_ceil(merges.size() + merges.size() / 2 + 2));
  results_.reserve(merges.size());
  pairs_.resize(kPairBits / 64);
  const std::size_t mask = slots_.size() - 1;
  for (const auto& [left, right, whole] : merges) {
    const std::size_t hash = hash_pair(left, right);
    set_bit(pairs_, pair_bit(hash));
    std::size_t at = hash & mask;
    while (slots_[at].rank != kNever && (slots_[at].left != left || slots_[at].right != right)) {
      at = (at + 1) & mask;
    }
    slots_[at] = {
        .left = left, .right = right, .rank = static_cast<std::uint32_t>(results_.size())};
    results_.push_back(whole);
  }
}

std::uint32_t Bpe::rank(TokenId left, TokenId right) const noexcept {
  const std::size_t hash = hash_pair(left, right);
  if (!has_bit(pairs_, pair_bit(hash))) return kNever;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if ((slot.left == left && slot.right == right) || slot.rank == kNever) return slot.rank;
  }
}

std::optional<TokenId> Bpe::byte_token(unsigned char byte) const noexcept {
  if (!options_.byte_fallback || byte_tokens_[byte] == kNoToken) return std::nullopt;
  return byte_tokens_[byte];
}

void Bpe::encode(std::string_view word, std::vector<Piece>& out, Scratch& scratch) const {
  if (!scratch.cache_.takes(word)) return encode_new(word, out, scratch);
  const ShortText key(word);
  auto& place = scratch.cache_.place_of(key);
  if (place.is_of(key)) return place.append_to(out);
  const std::size_t first = out.size();
  encode_new(word, out, scratch);
  place.assign(key, std::span(out).subspan(first));
}

void Bpe::encode_new(std::string_view word, std::vector<Piece>& out, Scratch& scratch) const {
  if (word.size() <= kShortWord || joins_.empty())
    return encode_part(word, out.size(), out, scratch);
  const std::size_t first = out.size();
  std::size_t begin = 0;
  for (std::size_t at = decode_at(word, 0).size; at < word.size();) {
    const auto [code_point, size] = decode_at(word, at);
    if (!may_join(word[at - 1], code_point)) {
      encode_part(word.substr(begin, at - begin), first, out, scratch);
      begin = at;
    }
    at += size;
  }
  encode_part(word.substr(begin), first, out, scratch);
}

void Bpe::encode_part(std::string_view word,
                      std::size_t first,
                      std::vector<Piece>& out,
                      Scratch& scratch) const {
  if (word.empty()) return;
  if (const auto id = whole_word(word, scratch)) {
    out.push_back({.id = *id, .size = static_cast<std::uint32_t>(word.size())});
    return;
  }
  begin(word, scratch);
  merge(scratch);
  const bool is_fused = options_.fuse_unknown && out.size() > first && !scratch.pieces_.empty() &&
                        out.back().id == options_.unknown &&
                        scratch.pieces_.front().id == options_.unknown;
  if (is_fused) out.back().size += scratch.pieces_.front().size;
  out.insert(out.end(), scratch.pieces_.begin() + (is_fused ? 1 : 0), scratch.pieces_.end());
}

std::optional<TokenId> Bpe::whole_word(std::string_view word, Scratch& scratch) const {
  const auto id = vocabulary_.find(word);
  if (!id || options_.ignore_merges) return id;
  auto& known = wholes_[static_cast<std::size_t>(*id)];
  auto whole = known.load(std::memory_order_relaxed);
  if (whole == Whole::unknown) {
    begin(word, scratch);
    merge(scratch);
    const bool is_whole = scratch.pieces_.size() == 1 && scratch.pieces_[0].id == *id;
    whole = is_whole ? Whole::yes : Whole::no;
    known.store(whole, std::memory_order_relaxed);
  }
  return whole == Whole::yes ? id : std::nullopt;
}

void Bpe::begin(std::string_view word, Scratch& scratch) const {
  scratch.pieces_.clear();
  if (!options_.is_byte_level) return begin_code_points(word, scratch);
  for (const char c : word) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(c)];
    if (id != kNoToken) {
      scratch.pieces_.push_back({.id = id, .size = 1});
    } else {
      add_unknown(1, scratch);
    }
  }
}

void Bpe::begin_code_points(std::string_view word, Scratch& scratch) const {
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t size = decode_at(word, at).size;
    const auto character = word.substr(at, size);
    at += size;
    if (const auto id = vocabulary_.find(character)) {
      scratch.pieces_.push_back({.id = *id, .size = static_cast<std::uint32_t>(size)});
      continue;
    }
    const bool falls_back =
        options_.byte_fallback && std::ranges::all_of(character, [this](char c) {
          return byte_tokens_[static_cast<unsigned char>(c)] != kNoToken;
        });
    if (!falls_back) {
      add_unknown(static_cast<std::uint32_t>(size), scratch);
      continue;
    }
    for (const char c : character) {
      scratch.pieces_.push_back({.id = byte_tokens_[static_cast<unsigned char>(c)], .size = 1});
    }
  }
}

void Bpe::add_unknown(std::uint32_t size, Scratch& scratch) const {
  if (!options_.unknown) {
    // It is left out, and the token before it covers its place.
    if (!scratch.pieces_.empty()) scratch.pieces_.back().size += size;
    return;
  }
  auto& pieces = scratch.pieces_;
  if (options_.fuse_unknown && !pieces.empty() && pieces.back().id == *options_.unknown) {
    pieces.back().size += size;
  } else {
    pieces.push_back({.id = *options_.unknown, .size = size});
  }
}

void Bpe::merge(Scratch& scratch) const {
  if (scratch.pieces_.size() < 2) return;
  if (scratch.pieces_.size() <= kShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
}

void Bpe::merge_short(Scratch& scratch) const {
  auto& pieces = scratch.pieces_;
  auto& ranks = scratch.ranks_;  // of each piece with the next
  ranks.resize(pieces.size() - 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank(pieces[i].id, pieces[i + 1].id);
  while (!ranks.empty()) {
    const auto best = std::ranges::min_element(ranks);
    if (*best == kNever) return;
    const auto at = static_cast<std::size_t>(best - ranks.begin());
    pieces[at].id = results_[*best];
    pieces[at].size += pieces[at + 1].size;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(best);
    if (at > 0) ranks[at - 1] = rank(pieces[at - 1].id, pieces[at].id);
    if (at < ranks.size()) ranks[at] = rank(pieces[at].id, pieces[at + 1].id);
  }
}

void Bpe::merge_long(Scratch& scratch) const {
  constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  auto& symbols = scratch.symbols_;
  auto& queue = scratch.queue_;
  const auto consider = [&](std::uint32_t at, bool is_ordered) {
    Scratch::Symbol& symbol = symbols[at];
    symbol.rank = symbol.next == kEnd ? kNever : rank(symbol.id, symbols[symbol.next].id);
    if (symbol.rank == kNever) return;
    queue.push_back(std::uint64_t{symbol.rank} << 32U | at);
    if (is_ordered) std::ranges::push_heap(queue, std::greater());
  };
  const auto count = static_cast<std::uint32_t>(scratch.pieces_.size());
  symbols.clear();
  queue.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    const Piece& piece = scratch.pieces_[i];
    symbols.push_back({.id = piece.id,
                       .size = piece.size,
                       .previous = i == 0 ? kEnd : i - 1,
                       .next = i + 1 == count ? kEnd : i + 1,
                       .rank = kNever});
  }
  for (std::uint32_t i = 0; i < count; ++i) consider(i, false);
  std::ranges::make_heap(queue, std::greater());
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater());
    const auto order = static_cast<std::uint32_t>(queue.back() >> 32U);
    const auto at = static_cast<std::uint32_t>(queue.back());
    queue.pop_back();
    auto& left = symbols[at];
    if (left.rank != order) continue;  // it has become part of another, or its neighbour has
    auto& right = symbols[left.next];
    left.id = results_[order];
    left.size += right.size;
    left.next = right.next;
    right.rank = kNever;
    if (left.next != kEnd) symbols[left.next].previous = at;
    if (left.previous != kEnd) consider(left.previous, true);
    consider(at, true);
  }
  scratch.pieces_.clear();
  for (std::uint32_t i = 0; i != kEnd; i = symbols[i].next) {
    scratch.pieces_.push_back({.id = symbols[i].id, .size = symbols[i].size});
  }
}

}  // namespace tinker::tokenizer
