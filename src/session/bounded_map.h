#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace tinker::session {

/// Values by id, of which the oldest goes when there are too many.
template <typename T>
class BoundedMap {
 public:
  explicit BoundedMap(std::size_t limit) : limit_(limit) {}

  /// Replaces what `id` had.
  void put(const std::string& id, T value) {
    take(id);
    entries_.emplace_back(id, std::move(value));
    by_id_.emplace(id, std::prev(entries_.end()));
    if (entries_.size() <= limit_) return;
    by_id_.erase(entries_.front().first);
    entries_.pop_front();
  }
  std::optional<T> take(const std::string& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return std::nullopt;
    std::optional<T> out(std::move(found->second->second));
    entries_.erase(found->second);
    by_id_.erase(found);
    return out;
  }
  void clear() {
    by_id_.clear();
    entries_.clear();
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<std::string, T>>;

  std::size_t limit_;
  Entries entries_ = {};  // oldest first
  std::unordered_map<std::string, typename Entries::iterator> by_id_ = {};
};

}  // namespace tinker::session
