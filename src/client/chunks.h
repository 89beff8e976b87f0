#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tinker/types/client_config.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"

namespace tinker::client {

/// How large a datum is, roughly: the numbers it holds, without names and framing (R7.4).
[[nodiscard]] std::int64_t estimate_bytes(const Datum& datum);

/// A part of a batch that makes one request: `count` data from `first` on.
struct Chunk {
  std::size_t first = 0;
  std::size_t count = 0;
  std::int64_t bytes = 0;  ///< Estimated.

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Cuts a batch into requests (R7.5). One that is too large by itself makes a chunk alone.
[[nodiscard]] std::vector<Chunk> plan_chunks(std::span<const Datum> data,
                                             const ClientConfigResponse& config);

/// One result out of those of all chunks, in order (R8). `invalid_response` for a metric that
/// cannot be reduced, naming it.
Result<ForwardBackwardOutput> combine(std::vector<ForwardBackwardOutput> parts);

}  // namespace tinker::client
