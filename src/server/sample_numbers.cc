#include "server/sample_numbers.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/samplers.h"

namespace tinker::server {

std::optional<SampleNumbers::Range> SampleNumbers::enter(
    const Target& target,
    std::int64_t number,
    const std::function<bool(std::int64_t)>& is_awaited) {
  auto& [range, lost] = known_[target];
  if (range.first <= number && number < range.end) return std::nullopt;
  const std::int64_t begin = number - std::min(number % kBlock, number % kClone);
  const std::int64_t end = number + std::min(kBlock - number % kBlock, kClone - number % kClone);
  if (range.end == 0) return range = {.first = begin, .end = end};
  range.first = std::min(range.first, begin);
  // The last block stays, because numbers may come late, and so does what is not announced yet. Two
  // blocks at a time keep up with numbers that grow, however large the gaps are.
  const std::int64_t last = std::min({range.end - kBlock, range.first + 2 * kBlock, begin});
  while (lost.end == 0 && range.first < last && !is_awaited(range.first)) ++range.first;
  range.end = std::max(range.end, end);
  return range;
}

void SampleNumbers::found(Target target, Range range) {
  known_[std::move(target)] = {.journalled = range, .lost = range};
}

SampleNumbers::Range SampleNumbers::take_lost(const Target& target) {
  const auto found = known_.find(target);
  return found != known_.end() ? std::exchange(found->second.lost, {}) : Range();
}

void SampleNumbers::forget(std::string_view session_id) {
  const std::string prefix = base::concat(session_id, ":");
  std::erase_if(known_,
                [&](const auto& entry) { return entry.first.sampler_id.starts_with(prefix); });
}

}  // namespace tinker::server
