#include "server/usage.h"

#include <chrono>
#include <utility>

namespace tinker::server {

void UsageMeter::add(UsageRecord record) {
  if (record.count <= 0) return;
  totals_[{record.base_model, record.kind}] += record.count;
  count(std::move(record));
}

void UsageMeter::put_back(const std::vector<UsageRecord>& taken) {
  for (const auto& record : taken) count(record);
}

void UsageMeter::count(UsageRecord record) {
  const auto hour = std::chrono::floor<std::chrono::hours>(record.hour);
  counts_[{hour,
           std::move(record.owner),
           std::move(record.session_id),
           std::move(record.project_id),
           std::move(record.base_model),
           record.kind}] += record.count;
}

std::vector<UsageRecord> UsageMeter::take() {
  std::vector<UsageRecord> out;
  out.reserve(counts_.size());
  for (const auto& [key, count] : std::exchange(counts_, {})) {
    const auto& [hour, owner, session, project, model, kind] = key;
    out.push_back({.hour = hour,
                   .owner = owner,
                   .session_id = session,
                   .project_id = project,
                   .base_model = model,
                   .kind = kind,
                   .count = count});
  }
  return out;
}

}  // namespace tinker::server
