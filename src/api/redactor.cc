#include "api/redactor.h"

#include <algorithm>
#include <utility>

namespace tinker::api {

namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Where `secret` is in `text`, occurrences that overlap or touch as one range.
void find_all(std::string_view text, std::string_view secret, std::vector<Range>& out) {
  const std::size_t first = out.size();
  for (auto at = text.find(secret); at != std::string_view::npos; at = text.find(secret, at + 1)) {
    if (out.size() > first && at <= out.back().end) {
      out.back().end = at + secret.size();
    } else {
      out.push_back({.begin = at, .end = at + secret.size()});
    }
  }
}

/// Sorted, and disjoint.
std::vector<Range> merged(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> out;
  for (const auto& range : ranges) {
    if (!out.empty() && range.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, range.end);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

}  // namespace

void Redactor::keep(std::string_view secret) {
  if (secret.size() < kMinLength || std::ranges::find(permanent_, secret) != permanent_.end()) {
    return;
  }
  permanent_.emplace_back(secret);
}

Redactor::Pin Redactor::use(std::string_view secret) {
  if (secret.size() < kMinLength) return nullptr;
  const auto known = std::ranges::find_if(recent_, [&](const Pin& pin) { return *pin == secret; });
  if (known != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, known);
    return recent_.front();
  }
  if (std::ranges::find(permanent_, secret) != permanent_.end()) return nullptr;
  recent_.push_front(std::make_shared<const std::string>(secret));
  auto pin = recent_.front();
  forget_idle();
  return pin;
}

void Redactor::forget_idle() {
  auto at = recent_.end();
  while (recent_.size() > kMaxIdle && at != recent_.begin()) {
    --at;
    const bool is_pinned = at->use_count() > 1;
    if (!is_pinned) at = recent_.erase(at);
  }
}

// All secrets are looked for in the text as it was given: a replacement is never searched, and what
// overlaps disappears as a whole.
std::string Redactor::redact(std::string_view text, std::size_t limit) const {
  std::size_t longest = 0;
  for (const auto& secret : permanent_) longest = std::max(longest, secret.size());
  for (const auto& secret : recent_) longest = std::max(longest, secret->size());
  limit = std::min(limit, text.size());
  text = text.substr(0, limit + std::min(longest, text.size() - limit));

  std::vector<Range> found;
  for (const auto& secret : permanent_) find_all(text, secret, found);
  for (const auto& secret : recent_) find_all(text, *secret, found);

  std::string out;
  std::size_t done = 0;
  for (const auto& range : merged(std::move(found))) {
    if (range.begin >= limit) break;
    out += text.substr(done, range.begin - done);
    out += "[redacted]";
    done = range.end;
  }
  if (done < limit) out += text.substr(done, limit - done);
  return out;
}

}  // namespace tinker::api
