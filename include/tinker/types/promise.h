#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/error.h"
#include "tinker/types/metadata.h"
#include "tinker/types/open_enum.h"

namespace tinker {

/// What a server answers to every asynchronous submission (PROTOCOL 7.2).
struct UntypedApiFuture {
  std::string request_id = {};
  std::optional<std::string> model_id = {};
  /// One id per requested sample, in order. Servers must send it with samples.
  std::optional<std::vector<std::string>> sample_sequence_ids = {};

  friend bool operator==(const UntypedApiFuture&, const UntypedApiFuture&) = default;
};

/// POST retrieve_future (PROTOCOL 9.19).
struct FutureRetrieveRequest {
  std::string request_id = {};
  bool allow_metadata_only = false;

  friend bool operator==(const FutureRetrieveRequest&, const FutureRetrieveRequest&) = default;
};

enum class QueueState { active, paused_capacity, paused_rate_limit };
template <>
inline constexpr std::array<std::string_view, 3> detail::kEnumNames<QueueState> = {
    "active", "paused_capacity", "paused_rate_limit"};

/// Not ready yet.
struct TryAgainResponse {
  std::string request_id = {};
  OpenEnum<QueueState> queue_state = {};
  std::optional<std::string> queue_state_reason = {};

  friend bool operator==(const TryAgainResponse&, const TryAgainResponse&) = default;
};

/// The result is there but large: ask again with `allow_metadata_only` off.
struct CompleteMetadataResponse {
  std::optional<std::int64_t> response_payload_size = {};  ///< Bytes.

  friend bool operator==(const CompleteMetadataResponse&,
                         const CompleteMetadataResponse&) = default;
};

template <>
inline constexpr std::array<std::string_view, 3> detail::kEnumNames<RequestErrorCategory> = {
    "unknown", "server", "user"};

/// The operation failed.
struct RequestFailedResponse {
  std::string error = {};
  OpenEnum<RequestErrorCategory> category = {};

  friend bool operator==(const RequestFailedResponse&, const RequestFailedResponse&) = default;
};

/// The body servers send with an HTTP error.
struct ErrorResponse {
  std::string detail = {};

  friend bool operator==(const ErrorResponse&, const ErrorResponse&) = default;
};

/// POST cancel_future (PROTOCOL 9.39).
struct CancelFutureRequest {
  std::string request_id = {};

  friend bool operator==(const CancelFutureRequest&, const CancelFutureRequest&) = default;
};

/// All requests of one sampling client.
struct SamplingSessionFuturesTarget {
  std::string sampling_session_id = {};
  std::int64_t cloned_sampler_id = 0;  ///< 0 for the client that made the session.

  friend bool operator==(const SamplingSessionFuturesTarget&,
                         const SamplingSessionFuturesTarget&) = default;
};

/// POST retrieve_futures (PROTOCOL 9.38): which requests are done.
struct FuturesRetrieveRequest {
  SamplingSessionFuturesTarget target = {};
  std::int64_t prev_cursor = 0;
  std::optional<double> timeout = {};                   ///< Seconds.
  std::vector<std::string> retrieved_request_ids = {};  ///< Results the server may drop.

  friend bool operator==(const FuturesRetrieveRequest&, const FuturesRetrieveRequest&) = default;
};

struct FutureFinished {
  std::string request_id = {};
  std::optional<std::int64_t> response_payload_uncompressed_size = {};  ///< Bytes.

  friend bool operator==(const FutureFinished&, const FutureFinished&) = default;
};

struct FutureFailed {
  std::string request_id = {};

  friend bool operator==(const FutureFailed&, const FutureFailed&) = default;
};

using FutureCompletion = std::variant<FutureFinished, FutureFailed, UnknownVariant>;

struct FuturesRetrieveResponse {
  std::vector<FutureCompletion> completions = {};
  std::int64_t cursor = 0;

  friend bool operator==(const FuturesRetrieveResponse&, const FuturesRetrieveResponse&) = default;
};

}  // namespace tinker
