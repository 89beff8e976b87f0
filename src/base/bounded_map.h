#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tinker::base {

/// Values by key, of which the oldest goes when there are too many.
template <typename Key, typename T>
class BoundedMap {
 public:
  explicit BoundedMap(std::size_t limit) : limit_(limit) {}

  /// Replaces what `key` had.
  void put(const Key& key, T value) {
    take(key);
    entries_.emplace_back(key, std::move(value));
    by_key_.emplace(key, std::prev(entries_.end()));
    if (entries_.size() <= limit_) return;
    by_key_.erase(entries_.front().first);
    entries_.pop_front();
  }
  /// Null when there is none; valid until the next change.
  [[nodiscard]] const T* find(const Key& key) const {
    const auto found = by_key_.find(key);
    return found != by_key_.end() ? &found->second->second : nullptr;
  }
  std::optional<T> take(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return std::nullopt;
    std::optional<T> out(std::move(found->second->second));
    entries_.erase(found->second);
    by_key_.erase(found);
    return out;
  }
  void clear() {
    by_key_.clear();
    entries_.clear();
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Keys and values, oldest first.
  [[nodiscard]] const auto& entries() const noexcept { return entries_; }

 private:
  using Entries = std::list<std::pair<Key, T>>;

  std::size_t limit_;
  Entries entries_ = {};  // oldest first
  std::unordered_map<Key, typename Entries::iterator> by_key_ = {};
};

}  // namespace tinker::base
