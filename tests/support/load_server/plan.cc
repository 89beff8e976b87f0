#include "support/load_server/plan.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/strings.h"

namespace tinker::load_server {

namespace {

constexpr std::array<std::pair<Fault, std::string_view>, 19> kNames = {{
    {Fault::none, "none"},
    {Fault::close, "close"},
    {Fault::hold, "hold"},
    {Fault::hang, "hang"},
    {Fault::drop, "drop"},
    {Fault::drop_after_headers, "drop_after_headers"},
    {Fault::truncate, "truncate"},
    {Fault::stall, "stall"},
    {Fault::reset, "reset"},
    {Fault::drip, "drip"},
    {Fault::garbage, "garbage"},
    {Fault::big_headers, "big_headers"},
    {Fault::bad_chunk, "bad_chunk"},
    {Fault::bad_gzip, "bad_gzip"},
    {Fault::rst_stream, "rst_stream"},
    {Fault::refused_stream, "refused_stream"},
    {Fault::goaway, "goaway"},
    {Fault::goaway_served, "goaway_served"},
    {Fault::mix, "mix"},
}};

Result<Fault> parse_fault(std::string_view name) {
  for (const auto& [fault, known] : kNames) {
    if (name == known) return fault;
  }
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat("unknown fault \"", name, "\"")};
}

template <typename Number>
Result<void> parse_number(std::string_view text, Number& out) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, out);
  if (error == std::errc() && at == end) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat("expected a number, got \"", text, "\"")};
}

Result<void> parse_duration(std::string_view text, std::chrono::milliseconds& out) {
  std::int64_t count = 0;
  TINKER_TRY(parse_number(text, count));
  out = std::chrono::milliseconds(count);
  return {};
}

Result<void> set_member(Plan& plan, std::string_view name, std::string_view value) {
  if (name == "fault") {
    TINKER_TRY(plan.fault, parse_fault(value));
  } else if (name == "status") {
    return parse_number(value, plan.status);
  } else if (name == "until") {
    return parse_number(value, plan.until);
  } else if (name == "bytes") {
    return parse_number(value, plan.bytes);
  } else if (name == "delay_ms") {
    return parse_duration(value, plan.delay);
  } else if (name == "delay_max_ms") {
    return parse_duration(value, plan.delay_max);
  } else if (name == "drip_ms") {
    return parse_duration(value, plan.drip);
  } else if (name == "retry_after") {
    plan.retry_after = value;
  } else if (name == "retry_after_ms") {
    plan.retry_after_ms = value;
  }
  return {};
}

}  // namespace

std::string_view to_string(Fault fault) noexcept {
  return kNames[static_cast<std::size_t>(fault)].second;
}

std::span<const Fault> all_faults() noexcept {
  static constexpr auto kFaults = [] {
    std::array<Fault, kNames.size()> out = {};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = kNames[i].first;
    return out;
  }();
  return kFaults;
}

Result<Plan> parse_plan(std::string_view text) {
  Plan plan;
  while (!text.empty()) {
    const auto pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    TINKER_TRY(set_member(plan, pair.substr(0, equals), pair.substr(equals + 1)));
  }
  return plan;
}

Plan random_plan(Rng& rng) {
  static constexpr std::array kStatuses = {402, 408, 409, 410, 429, 500, 502, 503};
  Plan plan = {.delay_max = std::chrono::milliseconds(20)};
  const double chance = rng.uniform();
  if (chance < 0.6) return plan;
  if (chance < 0.8) {
    plan.status = kStatuses[rng.below(kStatuses.size())];
    if (rng.below(2) == 0) plan.retry_after = "0.05";
    return plan;
  }
  do {
    // All but the first and the last, which are no faults; nobody may come to release a held one.
    plan.fault = all_faults()[1 + rng.below(all_faults().size() - 2)];
  } while (plan.fault == Fault::hold);
  return plan;
}

}  // namespace tinker::load_server
