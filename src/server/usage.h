#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/records.h"

namespace tinker::server {

/// Counts of the hour that are not on the disk yet, and totals since the start. Loop thread only.
class UsageMeter {
 public:
  void add(UsageRecord record);  ///< `hour` may be any time of it.
  /// What was added since the last call.
  std::vector<UsageRecord> take();
  /// What was taken could not be written: the next call gives it again.
  void put_back(const std::vector<UsageRecord>& taken);
  /// Of all owners, by base model, since the server was started.
  using Totals = std::map<std::pair<std::string, UsageRecord::Kind>, std::int64_t>;
  [[nodiscard]] const Totals& totals() const noexcept { return totals_; }

 private:
  using Key =
      std::tuple<Instant, std::string, std::string, std::string, std::string, UsageRecord::Kind>;
  void count(UsageRecord record);

  std::map<Key, std::int64_t> counts_ = {};
  Totals totals_ = {};
};

}  // namespace tinker::server
