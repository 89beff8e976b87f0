#include "engine/page_pool.h"

#include <algorithm>
#include <utility>

#include "engine/counter_random.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

/// Names what a page holds by what the pages before it hold, its tokens, and the adapter.
std::uint64_t key_of(std::uint64_t key_before, std::span<const std::int32_t> tokens) {
  std::uint64_t key = mix(key_before);
  for (const auto token : tokens) key = mix(key ^ static_cast<std::uint32_t>(token));
  return key;
}

std::uint64_t first_key(const Adapter* adapter) {
  return mix(reinterpret_cast<std::uintptr_t>(adapter));
}

}  // namespace

std::optional<PageId> PagePool::take() {
  if (free_.empty() && pages_.size() < limit_) {
    std::list<PageId> added = {static_cast<PageId>(pages_.size())};
    pages_.push_back({.memory = AlignedBytes(layout_.page_bytes()), .place = added.begin()});
    free_.splice(free_.end(), added);
  }
  PageId page = 0;
  if (!free_.empty()) {
    page = free_.back();
    move(page, free_, used_);
  } else if (!idle_.empty()) {
    page = idle_.front();
    move(page, idle_, used_);
    forget(page);
  } else {
    return std::nullopt;
  }
  pages_[page].users = 1;
  ++in_use_;
  return page;
}

void PagePool::release(PageId page) noexcept {
  auto& entry = pages_[page];
  TINKER_CHECK(entry.users > 0);
  if (--entry.users > 0) return;
  --in_use_;
  move(page, used_, entry.content ? idle_ : free_);
}

void PagePool::forget(PageId page) noexcept {
  auto& content = pages_[page].content;
  if (!content) return;
  by_key_.erase(content->key);
  content.reset();
}

void PagePool::remember(PageId page,
                        std::optional<PageId> before,
                        const std::shared_ptr<const Adapter>& adapter,
                        std::span<const std::int32_t> tokens) {
  TINKER_CHECK(tokens.size() == kKeyBlock);
  auto& entry = pages_[page];
  if (entry.content) return;
  // What follows something forgotten cannot be found.
  if (before && !pages_[*before].content) return;
  const std::uint64_t key_before = before ? pages_[*before].content->key : first_key(adapter.get());
  const std::uint64_t key = key_of(key_before, tokens);
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    // Of equal pages one is enough, unless it is of an adapter that is gone and had this address.
    const auto& content = *pages_[known->second].content;
    if (!content.has_adapter || !content.adapter.expired()) return;
    forget(known->second);
  }
  Content content = {.key = key,
                     .key_before = key_before,
                     .adapter = adapter,
                     .has_adapter = adapter != nullptr,
                     .tokens = {tokens.begin(), tokens.end()}};
  by_key_.emplace(key, page);
  entry.content = std::move(content);
}

std::vector<PageId> PagePool::find(const std::shared_ptr<const Adapter>& adapter,
                                   std::span<const std::int32_t> tokens) {
  std::vector<PageId> out;
  out.reserve(tokens.size() / kKeyBlock);
  std::uint64_t key_before = first_key(adapter.get());
  for (; tokens.size() >= kKeyBlock; tokens = tokens.subspan(kKeyBlock)) {
    const auto here = tokens.first(kKeyBlock);
    const auto found = by_key_.find(key_of(key_before, here));
    if (found == by_key_.end()) break;
    auto& page = pages_[found->second];
    // An address may be used again, and keys may collide.
    const bool is_same = page.content->key_before == key_before &&
                         page.content->has_adapter == (adapter != nullptr) &&
                         page.content->adapter.lock() == adapter &&
                         std::equal(here.begin(), here.end(), page.content->tokens.begin());
    if (!is_same) break;
    if (page.users++ == 0) {
      move(found->second, idle_, used_);
      ++in_use_;
    }
    out.push_back(found->second);
    key_before = found->first;
  }
  return out;
}

}  // namespace tinker::engine
