#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "server/records.h"

namespace tinker::server {

/// Counts of the hour that are not on the disk yet. Loop thread only.
class UsageMeter {
 public:
  void add(UsageRecord record);  ///< `hour` may be any time of it.
  /// What was added since the last call.
  std::vector<UsageRecord> take();

 private:
  using Key =
      std::tuple<Instant, std::string, std::string, std::string, std::string, UsageRecord::Kind>;
  std::map<Key, std::int64_t> counts_ = {};
};

}  // namespace tinker::server
