#pragma once

#include <chrono>
#include <cstddef>

namespace tinker {

/// What clients may ask of a `LocalServer`. Beyond a limit a request is refused with a text that
/// says so. All are at least 1; docs/guides/server.md has them as a table.
struct LocalServerLimits {
  using Time = std::chrono::milliseconds;
  static constexpr std::size_t kKibi = std::size_t{1} << 10U;
  static constexpr std::size_t kMebi = std::size_t{1} << 20U;
  static constexpr std::size_t kGibi = std::size_t{1} << 30U;

  // Connections and requests.
  std::size_t connections = 20'000;            ///< At a time; more wait until one closes.
  std::size_t streams = 250;                   ///< Requests at a time of one HTTP/2 connection.
  std::size_t head_bytes = 64 * kKibi;         ///< A request's head.
  std::size_t head_fields = 200;               ///< Headers of a request.
  std::size_t target_bytes = 8 * kKibi;        ///< Path and query of a request.
  std::size_t body_bytes = 1 * kGibi;          ///< A body as it travels.
  std::size_t json_bytes = 64 * kMebi;         ///< A body, unpacked, that is no training data.
  std::size_t training_bytes = 1 * kGibi;      ///< A body of training data, unpacked.
  Time head_time = std::chrono::seconds(15);   ///< For a head, TLS included.
  Time body_time = std::chrono::seconds(30);   ///< For each KiB of a body.
  Time idle_time = std::chrono::seconds(75);   ///< Between two requests of a connection.
  Time write_time = std::chrono::seconds(60);  ///< For each KiB of an answer to be taken.

  // Work.
  std::size_t operations = 100'000;      ///< Accepted and not finished; beyond, samples get 429.
  std::size_t samples = 16'384;          ///< Of one sampling request.
  std::size_t losses = 1000;             ///< Custom losses of a session.
  std::size_t ephemeral_saves = 16;      ///< Of a session; beyond, the oldest goes.
  std::size_t adapters = 32;             ///< Of checkpoints, kept in memory to sample from.
  std::size_t uploads = 8;               ///< Of adapters, that an owner has not finished.
  std::size_t upload_bytes = 1 * kGibi;  ///< A file of an upload, which is a body, too.
  Time chunk_time = std::chrono::seconds(60);  ///< That a request waits for lower numbers.

  // Results.
  Time poll_time = std::chrono::seconds(35);        ///< That a poll is held.
  Time batch_poll_time = std::chrono::seconds(30);  ///< That a batched poll is held.
  Time delivered_time = std::chrono::minutes(10);   ///< That a delivered result can be had again.
  Time unfetched_time = std::chrono::hours(24);     ///< That a result waits for its client.
  std::size_t result_bytes = 2 * kGibi;  ///< Of results that are kept; beyond, samples get 429.
  std::size_t delivered_bytes = 256 * kMebi;  ///< Of them delivered; beyond, the oldest goes.
  std::size_t announced_bytes = 4 * kMebi;    ///< From there a result's size is told first.
  std::size_t expired_ids = 100'000;          ///< Ids of results that are known to have gone.

  // Links, expiry, and the end.
  Time link_time = std::chrono::minutes(15);   ///< That a signed link to a checkpoint is good.
  Time sweep_time = std::chrono::seconds(30);  ///< Between two removals of what has expired.
  Time drain_time =
      std::chrono::seconds(30);  ///< That work has to finish when `tinker serve` ends.
};

}  // namespace tinker
