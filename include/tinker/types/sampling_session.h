#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tinker {

/// POST create_sampling_session (PROTOCOL 9.17).
struct CreateSamplingSessionRequest {
  std::string session_id = {};
  std::int64_t sampling_session_seq_id = 0;
  std::optional<std::string> base_model = {};
  std::optional<std::string> model_path = {};  ///< A tinker path.

  friend bool operator==(const CreateSamplingSessionRequest&,
                         const CreateSamplingSessionRequest&) = default;
};

struct CreateSamplingSessionResponse {
  std::string sampling_session_id = {};

  friend bool operator==(const CreateSamplingSessionResponse&,
                         const CreateSamplingSessionResponse&) = default;
};

/// POST join_sampling_session (PROTOCOL 9.41).
struct JoinSamplingSessionRequest {
  std::string sampling_session_id = {};

  friend bool operator==(const JoinSamplingSessionRequest&,
                         const JoinSamplingSessionRequest&) = default;
};

struct JoinSamplingSessionResponse {
  std::int64_t client_counter = 0;  ///< Unique among the clients of the sampling session.

  friend bool operator==(const JoinSamplingSessionResponse&,
                         const JoinSamplingSessionResponse&) = default;
};

/// GET samplers/{id} (PROTOCOL 9.20).
struct GetSamplerResponse {
  std::string sampler_id = {};
  std::string base_model = {};
  std::optional<std::string> model_path = {};

  friend bool operator==(const GetSamplerResponse&, const GetSamplerResponse&) = default;
};

}  // namespace tinker
