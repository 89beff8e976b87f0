#include "tinker/trace_context.h"

#include <algorithm>
#include <cstdint>

#include "base/strings.h"

namespace tinker {

namespace {

constexpr std::size_t kMaxState = 512;
constexpr std::size_t kMaxStatePairs = 32;
constexpr std::string_view kHex = "0123456789abcdef";

Error invalid(std::string_view what, std::string_view found) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(what, ", found '", found, "'")};
}

bool is_hex(std::string_view text) noexcept {
  return text.find_first_not_of(kHex) == std::string_view::npos;
}

bool is_zero(std::string_view text) noexcept {
  return text.find_first_not_of('0') == std::string_view::npos;
}

std::string_view trim(std::string_view text) noexcept {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Result<void> check_parent(std::string_view text) {
  constexpr std::string_view kForm = "00-<32 hex digits>-<16 hex digits>-<2 hex digits>";
  const bool fits = text.size() == 55 && text[2] == '-' && text[35] == '-' && text[52] == '-';
  if (!fits) return invalid(base::concat("traceparent: expected ", kForm), text.substr(0, 80));
  const auto version = text.substr(0, 2);
  const auto trace_id = text.substr(3, 32);
  const auto parent_id = text.substr(36, 16);
  const auto flags = text.substr(53, 2);
  if (version != "00") return invalid("traceparent: expected version 00", version);
  if (!is_hex(trace_id) || !is_hex(parent_id) || !is_hex(flags)) {
    return invalid("traceparent: expected hex digits in lower case", text);
  }
  if (is_zero(trace_id)) return invalid("traceparent: expected a trace id that is not zero", text);
  if (is_zero(parent_id))
    return invalid("traceparent: expected a parent id that is not zero", text);
  return {};
}

Result<void> check_state(std::string_view text) {
  if (text.size() > kMaxState) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(
                     "tracestate: expected at most ", kMaxState, " bytes, found ", text.size())};
  }
  const auto is_printable = [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; };
  if (!std::ranges::all_of(text, is_printable)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "tracestate: expected printable ASCII, found another character"};
  }
  std::size_t pairs = 0;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const auto pair = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == pair.size()) {
      return invalid("tracestate: expected key=value pairs", pair);
    }
    if (++pairs > kMaxStatePairs) {
      return Error{
          .code = ErrorCode::invalid_argument,
          .message = base::concat("tracestate: expected at most ", kMaxStatePairs, " pairs")};
    }
  }
  return {};
}

/// `digits` / 16 words of random hex digits, not all of them zero.
std::string random_hex(Rng& rng, std::size_t digits) {
  std::string out;
  do {
    out.clear();
    while (out.size() < digits) {
      std::uint64_t bits = rng.next();
      for (int i = 0; i < 16; ++i, bits >>= 4U) out += kHex[bits & 0xfU];
    }
  } while (is_zero(out));
  return out;
}

}  // namespace

Result<TraceContext> TraceContext::parse(std::string_view traceparent,
                                         std::string_view tracestate) {
  TraceContext context = {.traceparent = std::string(traceparent),
                          .tracestate = std::string(tracestate)};
  TINKER_TRY(context.validate());
  return context;
}

TraceContext TraceContext::generate(Rng& rng) {
  const std::string trace_id = random_hex(rng, 32);
  const std::string parent_id = random_hex(rng, 16);
  return {.traceparent = base::concat("00-", trace_id, "-", parent_id, "-01")};
}

Result<void> TraceContext::validate() const {
  TINKER_TRY(check_parent(traceparent));
  return check_state(tracestate);
}

}  // namespace tinker
