#include "server/shares.h"

#include "tinker/check.h"

namespace tinker::server {

void Shares::add(const std::string& owner, std::size_t amount) {
  if (amount == 0) return;
  held_[owner] += amount;
  total_ += amount;
}

void Shares::remove(const std::string& owner, std::size_t amount) {
  if (amount == 0) return;
  const auto found = held_.find(owner);
  TINKER_CHECK(found != held_.end() && found->second >= amount);
  found->second -= amount;
  total_ -= amount;
  if (found->second == 0) held_.erase(found);
}

std::size_t Shares::of(const std::string& owner) const {
  const auto found = held_.find(owner);
  return found != held_.end() ? found->second : 0;
}

bool Shares::admits(const std::string& owner, std::size_t amount, std::size_t limit) const {
  const std::size_t held = of(owner);
  if (held == 0) return true;
  return total_ + amount <= limit || held + amount <= limit / held_.size();
}

}  // namespace tinker::server
