#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tinker::server {

/// The ids of results that are gone, so that they are told from ids that never were. Bounded: the
/// oldest is forgotten first. `Extra` is kept with the id and dies with it.
template <typename Extra>
class ExpiredIds {
 public:
  explicit ExpiredIds(std::size_t limit) : limit_(limit) {}

  /// The id must not be here.
  void add(std::string id, std::string owner, Extra extra) {
    entries_.push_back({std::move(id), std::move(owner), std::move(extra)});
    by_id_.emplace(entries_.back().id, std::prev(entries_.end()));
    if (entries_.size() > limit_) erase(entries_.begin());
  }
  [[nodiscard]] bool contains(std::string_view id, std::string_view owner) const {
    const auto found = by_id_.find(id);
    return found != by_id_.end() && found->second->owner == owner;
  }
  void remove(std::string_view id) {
    if (const auto found = by_id_.find(id); found != by_id_.end()) erase(found->second);
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::string id;
    std::string owner;
    Extra extra;
  };
  using Entries = std::list<Entry>;

  void erase(Entries::iterator entry) {
    by_id_.erase(entry->id);
    entries_.erase(entry);
  }

  std::size_t limit_;
  Entries entries_ = {};  // oldest first
  std::unordered_map<std::string_view, typename Entries::iterator> by_id_ = {};
};

}  // namespace tinker::server
