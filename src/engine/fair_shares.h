#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <map>

namespace tinker::engine {

/// Divides something, such as the time of an engine, among those who want it, by their weights. It
/// is start-time fair queueing (Goyal, Vin and Cheng 1996): everybody has a virtual time that grows
/// by cost / weight with what they are given, and whoever is furthest behind is next.
///
/// While two want something all the time, what they were given, each divided by its weight, differs
/// by at most the largest cost of a single turn of the one divided by its weight plus the same of
/// the other. Whoever wanted nothing for a while begins where the others are: nothing is saved up.
/// Whoever was given something and leaves keeps its debt until the others have caught up.
///
/// Thread-compatible.
template <std::totally_ordered Key>
class FairShares {
 public:
  /// From now on `key` wants something. The weight is positive.
  void arrive(const Key& key, double weight = 1) {
    std::erase_if(shares_, [&](const auto& entry) {
      return !entry.second.wants && entry.second.time <= now_;  // as good as new
    });
    auto& share = shares_[key];
    if (!share.wants) share.time = std::max(share.time, now_);
    share.weight = weight;
    share.wants = true;
  }
  void leave(const Key& key) {
    const auto found = shares_.find(key);
    if (found != shares_.end()) found->second.wants = false;
  }
  [[nodiscard]] bool wants(const Key& key) const {
    const auto found = shares_.find(key);
    return found != shares_.end() && found->second.wants;
  }
  /// Whether anybody wants something.
  [[nodiscard]] bool is_wanted() const {
    return std::ranges::any_of(shares_, [](const auto& entry) { return entry.second.wants; });
  }

  /// Who is next among those who want something and for whom `may(key)` holds; null: nobody.
  template <std::predicate<const Key&> F>
  [[nodiscard]] const Key* next(F may) const {
    const typename Shares::value_type* out = nullptr;
    for (const auto& entry : shares_) {
      if (!entry.second.wants || !may(entry.first)) continue;
      if (out == nullptr || entry.second.time < out->second.time) out = &entry;
    }
    return out == nullptr ? nullptr : &out->first;
  }
  [[nodiscard]] const Key* next() const {
    return next([](const Key& /*key*/) { return true; });
  }
  /// `key`, which was next, was given something that cost so much.
  void charge(const Key& key, double cost) {
    auto& share = shares_[key];
    double least = share.time;  // of those who want, also of who was passed over
    for (const auto& [other, waiting] : shares_) {
      if (waiting.wants) least = std::min(least, waiting.time);
    }
    now_ = std::max(now_, least);
    share.time += cost / share.weight;
  }

  /// Those who are remembered.
  [[nodiscard]] std::size_t size() const noexcept { return shares_.size(); }

 private:
  struct Share {
    double time = 0;  // virtual
    double weight = 1;
    bool wants = false;
  };
  using Shares = std::map<Key, Share>;
  Shares shares_;
  double now_ = 0;  // where those are who want something and were given least
};

}  // namespace tinker::engine
