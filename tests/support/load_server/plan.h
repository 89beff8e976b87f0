#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/rng.h"

namespace tinker::load_server {

/// What goes wrong with an answer. What one protocol does not have acts as its nearest relative.
enum class Fault {
  none,
  close,               ///< The answer, then the end of the connection without notice.
  hold,                ///< The answer after somebody asked for `/release`.
  hang,                ///< No answer, ever.
  drop,                ///< The connection ends before the head.
  drop_after_headers,  ///< ... after the head.
  truncate,            ///< Half of the body, then the end, of the stream in HTTP/2.
  stall,               ///< Half of the body, then nothing more.
  reset,               ///< TCP RST before the head.
  drip,                ///< The body in small pieces, `drip_ms` apart.
  garbage,             ///< Bytes that are no HTTP.
  big_headers,         ///< A head of 400 kB.
  bad_chunk,           ///< A broken chunk size; HTTP/2: RST_STREAM with PROTOCOL_ERROR.
  bad_gzip,            ///< Content-Encoding: gzip over a body that is none.
  rst_stream,          ///< HTTP/2: RST_STREAM with INTERNAL_ERROR. HTTP/1: as `drop`.
  refused_stream,      ///< HTTP/2: RST_STREAM with REFUSED_STREAM. HTTP/1: as `drop`.
  goaway,              ///< HTTP/2: GOAWAY that leaves this stream out. HTTP/1: as `drop`.
  goaway_served,       ///< HTTP/2: GOAWAY, then the answer. HTTP/1: with "Connection: close".
  mix,                 ///< One of the others, and of failing statuses, by chance.
};
std::string_view to_string(Fault fault) noexcept;
/// All, in the order of the enumeration.
std::span<const Fault> all_faults() noexcept;

/// What a request asks for in its query or in the header `x-fault`:
/// `fault=drip&drip_ms=5&delay_ms=20`, `status=429&retry_after=1`, `delay_ms=0&delay_max_ms=4000`.
struct Plan {
  Fault fault = Fault::none;
  int status = 200;
  std::chrono::milliseconds delay = {};      ///< Before anything happens.
  std::chrono::milliseconds delay_max = {};  ///< If longer, the delay is random in between.
  std::chrono::milliseconds drip{1};
  std::size_t bytes = 0;         ///< Length of the body; 0: what the endpoint says.
  std::string retry_after = {};  ///< Header of the answer, as given.
  std::string retry_after_ms = {};
  /// Only attempts with a smaller `x-stainless-retry-count` fail.
  int until = std::numeric_limits<int>::max();
};

/// Members that are not a plan's are ignored: they belong to the endpoint.
Result<Plan> parse_plan(std::string_view text);
/// Something for `Fault::mix`, weighted: mostly good answers.
Plan random_plan(Rng& rng);

}  // namespace tinker::load_server
