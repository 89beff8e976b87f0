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
  std::size_t connections = 20'000;            ///< Number of open ones; more wait until one closes.
  std::size_t streams = 250;                   ///< Number of open requests of an HTTP/2 connection.
  std::size_t head_bytes = 64 * kKibi;         ///< Size of a request's head.
  std::size_t head_fields = 200;               ///< Number of a request's headers.
  std::size_t target_bytes = 8 * kKibi;        ///< Size of a request's path and query.
  std::size_t body_bytes = 1 * kGibi;          ///< Size of a body as it travels.
  std::size_t json_bytes = 64 * kMebi;         ///< Size of an unpacked body without training data.
  std::size_t training_bytes = 1 * kGibi;      ///< Size of an unpacked body of training data.
  Time head_time = std::chrono::seconds(15);   ///< How long a head takes, TLS included.
  Time body_time = std::chrono::seconds(30);   ///< How long each KiB of a body takes.
  Time idle_time = std::chrono::seconds(75);   ///< How long a connection is idle between requests.
  Time write_time = std::chrono::seconds(60);  ///< How long a client takes for a KiB of an answer.
  Time body_total_time = std::chrono::hours(1);  ///< How long a body takes that is kept in memory.
  std::size_t incoming_bytes = 4 * kGibi;        ///< Size of unanswered bodies; beyond, 429.

  // Work.
  std::size_t operations = 100'000;      ///< Number of unfinished ones; beyond, more get 429.
  std::size_t samples = 16'384;          ///< Number of samples of one request.
  std::size_t losses = 1000;             ///< Number of custom losses of a session.
  std::size_t ephemeral_saves = 16;      ///< Number of saves without a name that a run keeps.
  std::size_t adapters = 32;             ///< Number of adapters of checkpoints in memory.
  std::size_t uploads = 8;               ///< Number of an owner's unfinished uploads.
  std::size_t upload_bytes = 1 * kGibi;  ///< Size of a file of an upload; `body_bytes` holds, too.
  Time chunk_time = std::chrono::seconds(60);  ///< How long a request waits for lower numbers.
  std::size_t accepted_bytes = 2 * kGibi;      ///< Size of unfinished training data; beyond, 429.
  std::size_t sessions = 10'000;               ///< Number of an owner's in memory; beyond, 429.
  std::size_t runs = 10'000;                   ///< Number of training runs that a session makes.

  // Results.
  Time poll_time = std::chrono::seconds(35);        ///< How long a poll is held.
  Time batch_poll_time = std::chrono::seconds(30);  ///< How long a batched poll is held.
  Time delivered_time = std::chrono::minutes(10);   ///< How long a delivered result is kept.
  Time unfetched_time = std::chrono::hours(24);     ///< How long a result waits for its client.
  std::size_t result_bytes = 2 * kGibi;             ///< Size of unfetched results; beyond, 429.
  std::size_t delivered_bytes = 256 * kMebi;  ///< Size of the delivered ones; the oldest go first.
  std::size_t announced_bytes = 4 * kMebi;    ///< Size from which a result is announced first.
  std::size_t expired_ids = 100'000;          ///< Number of expired results that are remembered.
  Time sessionless_time = std::chrono::hours(1);  ///< As `unfetched_time`, of no session's samples.

  // Links, expiry, and the end.
  Time link_time = std::chrono::minutes(15);   ///< How long a signed link to a checkpoint works.
  Time sweep_time = std::chrono::seconds(30);  ///< How long expired checkpoints wait for removal.
  Time drain_time =
      std::chrono::seconds(30);  ///< How long `tinker serve` lets work go on at its end.
  Time upload_time = std::chrono::hours(1);  ///< How long an upload can be sent and finished.
  Time token_time =
      std::chrono::hours(1);  ///< How long a token works that a key was exchanged for.
  Time history_time = std::chrono::days(365);  ///< How long the catalogue keeps what is over.
};

}  // namespace tinker
