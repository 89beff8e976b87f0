#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::server {

/// What the journal of a run is made of.
struct JournalRecord {
  enum class Kind : std::uint8_t {
    created = 1,   ///< The request that made the run. Always the first record.
    snapshot = 2,  ///< The state to begin with; `number` is that of the next request.
    sampler = 3,   ///< Weights of a save without a name; `number` is its sampling session's.
    result = 4,    ///< How a request ended that is not to be done again.
    request = 5,   ///< A request that was accepted.
    loss = 6,      ///< A loss, in the journal of the session.
    samples = 7,   ///< Of the session, too: a sampling session may have samples from the number in
                   ///< `note` on, up to `number`.
  };
  static constexpr std::int64_t kNoNumber = -1;

  Kind kind = Kind::request;
  std::int64_t number = kNoNumber;  ///< `seq_id` of requests and results.
  std::string request_id = {};
  std::string type = {};  ///< The endpoint, "optim_step".
  std::string payload_hash = {};
  std::string content_type = {};
  std::string owner = {};
  std::string note = {};                         ///< What the server chose: a seed, a folder.
  std::shared_ptr<const std::string> body = {};  ///< As received, decompressed. Null: empty.

  [[nodiscard]] std::string_view content() const noexcept {
    return body ? std::string_view(*body) : std::string_view();
  }
  [[nodiscard]] std::string encode() const;
  /// Fails with `io_error` for bytes that `encode` does not make.
  static Result<JournalRecord> decode(std::string_view bytes);
};

}  // namespace tinker::server
