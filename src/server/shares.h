#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

namespace tinker::server {

/// How much of something each owner holds, where a limit bounds what all owners hold together.
/// Thread-compatible.
class Shares {
 public:
  void add(const std::string& owner, std::size_t amount);
  /// Requires that the owner holds as much.
  void remove(const std::string& owner, std::size_t amount);
  [[nodiscard]] std::size_t of(const std::string& owner) const;
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  /// Whether the owner may take `amount` more: all of them stay within `limit`, or the owner stays
  /// within its share, which is the limit divided by the number of owners that hold something. So
  /// an owner who fills everything keeps nobody out, and ten owners together hold at most three
  /// times the limit. An owner who holds nothing is always let in.
  [[nodiscard]] bool admits(const std::string& owner, std::size_t amount, std::size_t limit) const;

 private:
  std::unordered_map<std::string, std::size_t> held_ = {};  // never 0
  std::size_t total_ = 0;
};

}  // namespace tinker::server
