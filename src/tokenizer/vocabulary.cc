#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/strings.h"
#include "tokenizer/hash.h"

namespace tinker::tokenizer {

namespace {

/// Of other bits of the hash than those that choose a slot.
std::uint8_t tag_of(std::uint64_t hash) noexcept {
  return static_cast<std::uint8_t>(hash >> 56U | 1U);
}

}  // namespace

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  entries_.reserve(tokens);
  text_.reserve(bytes);
  grow(std::bit_ceil(tokens + tokens / 2 + 2));
}

void Vocabulary::grow(std::size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot());
  tags_.assign(slots, 0);
  for (std::size_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].begin != kNone && !entries_[id].is_hidden) fill_slot(static_cast<TokenId>(id));
  }
}

void Vocabulary::fill_slot(TokenId id) {
  const auto& [begin, size, is_hidden] = entries_[static_cast<std::size_t>(id)];
  const std::uint64_t hash = hash_bytes(text(begin, size));
  const std::size_t at = slot_of(text(begin, size), hash);
  tags_[at] = tag_of(hash);
  slots_[at] = {.id = static_cast<std::uint32_t>(id), .begin = begin, .size = size};
}

std::size_t Vocabulary::slot_of(std::string_view bytes, std::uint64_t hash) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    if (tags_[at] == 0) return at;
    if (tags_[at] == tag_of(hash) && text(slots_[at].begin, slots_[at].size) == bytes) return at;
  }
}

Result<void> Vocabulary::add_hidden(std::string_view bytes, TokenId id) {
  const auto refuse = [&](std::string_view why) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("token id ", id, " ", why)};
  };
  if (id < 0 || id > kMaxTokenId) return refuse("is out of range");
  if (has(id)) return refuse("is given twice");
  if (text_.size() + bytes.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return refuse("is beyond 4 GiB of tokens");
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  ++count_;
  entries_[index] = {.begin = static_cast<std::uint32_t>(text_.size()),
                     .size = static_cast<std::uint32_t>(bytes.size()),
                     .is_hidden = true};
  text_ += bytes;
  return {};
}

Result<void> Vocabulary::add(std::string_view bytes, TokenId id) {
  if (3 * (count_ + 1) > 2 * slots_.size()) grow(std::max<std::size_t>(64, 2 * slots_.size()));
  TINKER_TRY(add_hidden(bytes, id));
  entries_[static_cast<std::size_t>(id)].is_hidden = false;
  fill_slot(id);
  return {};
}

std::optional<TokenId> Vocabulary::find(std::string_view bytes) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const std::size_t at = slot_of(bytes, hash_bytes(bytes));
  return tags_[at] == 0 ? std::nullopt : std::optional(static_cast<TokenId>(slots_[at].id));
}

bool Vocabulary::has(TokenId id) const noexcept {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < entries_.size() && entries_[index].begin != kNone;
}

std::string_view Vocabulary::bytes(TokenId id) const noexcept {
  if (!has(id)) return {};
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return text(entry.begin, entry.size);
}

}  // namespace tinker::tokenizer
