#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/adapter.h"
#include "engine/kv_pages.h"
#include "engine/memory.h"

namespace tinker::engine {

using PageId = std::uint32_t;

/// Pages of the cache of keys and values. Sequences that begin alike share them; full pages are
/// remembered after their sequences have ended, until the memory is needed.
///
/// What throws for lack of memory has changed nothing. Thread-compatible.
class PagePool {
 public:
  /// `pages` is the limit; memory is taken as it is needed.
  PagePool(const KvLayout& layout, std::size_t pages) : layout_(layout), limit_(pages) {}

  /// A page that one sequence has for itself; nothing when all are in use.
  std::optional<PageId> take();
  /// One more user of the page.
  void share(PageId page) { ++pages_[page].users; }
  /// One user less.
  void release(PageId page) noexcept;
  [[nodiscard]] std::byte* data(PageId page) const { return pages_[page].memory.data(); }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }

  /// Remembers that a page holds `tokens` (kKeyBlock of them) behind what `before` holds, computed
  /// with an adapter.
  void remember(PageId page,
                std::optional<PageId> before,
                const std::shared_ptr<const Adapter>& adapter,
                std::span<const std::int32_t> tokens);
  /// The pages that hold the beginning of `tokens`, shared with the caller.
  std::vector<PageId> find(const std::shared_ptr<const Adapter>& adapter,
                           std::span<const std::int32_t> tokens);

 private:
  /// What a page holds, if it is remembered.
  struct Content {
    std::uint64_t key = 0;
    std::uint64_t key_before = 0;
    std::weak_ptr<const Adapter> adapter = {};
    bool has_adapter = false;
    std::vector<std::int32_t> tokens = {};
  };
  struct Page {
    AlignedBytes memory = {};
    std::size_t users = 0;
    std::optional<Content> content = {};
    std::list<PageId>::iterator place = {};  // in one of the lists
  };
  void forget(PageId page) noexcept;
  /// To the end of `to`.
  void move(PageId page, std::list<PageId>& from, std::list<PageId>& to) noexcept {
    to.splice(to.end(), from, pages_[page].place);
  }

  KvLayout layout_;
  std::size_t limit_;
  std::size_t in_use_ = 0;
  std::vector<Page> pages_;
  // Every page is in one of these, and moves between them without taking memory.
  std::list<PageId> used_;
  std::list<PageId> idle_;  // remembered, without users, the longest unused first
  std::list<PageId> free_;
  std::unordered_map<std::uint64_t, PageId> by_key_;
};

}  // namespace tinker::engine
