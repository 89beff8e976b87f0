#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/rng.h"

namespace tinker {

/// Where a call stands in the caller's own trace, as W3C Trace Context (level 1) writes it. Sent
/// with the requests of a call as the headers `traceparent` and `tracestate`.
///
///     auto trace = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
///
/// Thread-compatible.
struct TraceContext {
  std::string traceparent = {};  ///< "00-<32 hex>-<16 hex>-<2 hex>", lower case, ids not zero.
  std::string tracestate = {};   ///< Vendors' own `key=value` pairs; empty: not sent.

  /// A checked context; `invalid_argument` names what is wrong with it.
  static Result<TraceContext> parse(std::string_view traceparent, std::string_view tracestate = {});
  /// The start of a new trace that is to be recorded.
  static TraceContext generate(Rng& rng);

  /// What `parse` checks, for a context that was filled in by hand: version 00, and a state of at
  /// most 512 printable characters and 32 pairs.
  [[nodiscard]] Result<void> validate() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

}  // namespace tinker
