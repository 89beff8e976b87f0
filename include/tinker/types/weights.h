#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tinker/result.h"
#include "tinker/secret.h"
#include "tinker/types/date_time.h"
#include "tinker/types/json.h"
#include "tinker/types/metadata.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"

namespace tinker {

/// POST save_weights (PROTOCOL 9.14).
struct SaveWeightsRequest {
  std::string model_id = {};
  std::optional<std::string> path = {};  ///< A checkpoint name, not a tinker path.
  std::optional<std::int64_t> seq_id = {};
  std::optional<std::int64_t> ttl_seconds = {};  ///< Absent: never expires.
  bool overwrite = false;
  std::optional<StringMap> user_metadata = {};

  friend bool operator==(const SaveWeightsRequest&, const SaveWeightsRequest&) = default;
};

struct SaveWeightsResponse {
  std::string path = {};  ///< A tinker path.
  bool has_type = true;   ///< Whether the answer carries its optional type tag.

  friend bool operator==(const SaveWeightsResponse&, const SaveWeightsResponse&) = default;
};

/// POST load_weights (PROTOCOL 9.15): into a model (`model_id`, `seq_id`), or making one
/// (`session_id`, `model_seq_id`).
struct LoadWeightsRequest {
  std::optional<std::string> model_id = {};
  std::optional<std::int64_t> seq_id = {};
  std::optional<std::string> session_id = {};
  std::optional<std::int64_t> model_seq_id = {};
  std::optional<std::string> base_model = {};
  std::optional<JsonObject> user_metadata = {};
  std::string path = {};  ///< A tinker path.
  /// Load the optimizer's state too. Always sent; the wire knows no default.
  bool optimizer = false;
  std::optional<OptimizerConfig> optimizer_config = {};
  std::optional<Secret> weights_access_token = {};

  friend bool operator==(const LoadWeightsRequest&, const LoadWeightsRequest&) = default;
};

struct LoadWeightsResponse {
  std::optional<std::string> path = {};
  std::optional<std::string> model_id = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  friend bool operator==(const LoadWeightsResponse&, const LoadWeightsResponse&) = default;
};

/// POST save_weights_for_sampler (PROTOCOL 9.16): named (`path`) or ephemeral
/// (`sampling_session_seq_id`).
struct SaveWeightsForSamplerRequest {
  std::string model_id = {};
  std::optional<std::string> path = {};  ///< A checkpoint name.
  std::optional<std::int64_t> sampling_session_seq_id = {};
  std::optional<std::int64_t> seq_id = {};
  std::optional<std::int64_t> ttl_seconds = {};
  std::optional<StringMap> user_metadata = {};

  friend bool operator==(const SaveWeightsForSamplerRequest&,
                         const SaveWeightsForSamplerRequest&) = default;
};

/// What a named save gives the caller.
struct SaveWeightsForSamplerResponse {
  std::string path = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  /// Where the console shows the checkpoint; an error when `path` is no tinker path.
  [[nodiscard]] Result<std::string> get_console_url() const;
  /// Where the console lets one talk to it.
  [[nodiscard]] std::string get_playground_url() const;

  friend bool operator==(const SaveWeightsForSamplerResponse&,
                         const SaveWeightsForSamplerResponse&) = default;
};

/// What the server answers: a path for a named save, a session for an ephemeral one.
struct SaveWeightsForSamplerResponseInternal {
  std::optional<std::string> path = {};
  std::optional<std::string> sampling_session_id = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  friend bool operator==(const SaveWeightsForSamplerResponseInternal&,
                         const SaveWeightsForSamplerResponseInternal&) = default;
};

/// POST save_weights_external (PROTOCOL 9.44): export in Hugging Face layout.
struct SaveWeightsExternalRequest {
  std::string model_id = {};
  std::string path = {};  ///< A checkpoint name.
  std::optional<std::int64_t> seq_id = {};
  std::optional<std::int64_t> ttl_seconds = {};
  std::optional<std::vector<std::string>> age_encryption_recipients = {};  ///< At most 10.

  friend bool operator==(const SaveWeightsExternalRequest&,
                         const SaveWeightsExternalRequest&) = default;
};

struct SaveWeightsExternalResponse {
  std::string path = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  friend bool operator==(const SaveWeightsExternalResponse&,
                         const SaveWeightsExternalResponse&) = default;
};

struct SaveWeightsExternalResponseInternal {
  std::optional<std::string> path = {};
  std::optional<std::int64_t> size_bytes = {};
  bool has_type = true;  ///< Whether the answer carries its optional type tag.

  friend bool operator==(const SaveWeightsExternalResponseInternal&,
                         const SaveWeightsExternalResponseInternal&) = default;
};

/// GET external_weights_urls (PROTOCOL 9.45).
struct ExternalWeightsUrlsResponse {
  StringMap urls = {};  ///< Signed URL by file path, relative to the checkpoint.
  DateTime expires = {};

  friend bool operator==(const ExternalWeightsUrlsResponse&,
                         const ExternalWeightsUrlsResponse&) = default;
};

/// POST external_weights_upload_start, of servers from 0.39 on (PROTOCOL 14): an adapter that was
/// trained elsewhere.
struct ExternalWeightsUploadStartRequest {
  std::string base_model = {};
  LoraConfig lora_config = {};
  std::optional<std::string> destination_project_id = {};

  friend bool operator==(const ExternalWeightsUploadStartRequest&,
                         const ExternalWeightsUploadStartRequest&) = default;
};

struct ExternalWeightsUploadStartResponse {
  std::string upload_id = {};
  StringMap urls = {};  ///< Where to PUT each file, by its name.
  DateTime expires = {};

  friend bool operator==(const ExternalWeightsUploadStartResponse&,
                         const ExternalWeightsUploadStartResponse&) = default;
};

/// POST external_weights_upload_finish, when all files are there.
struct ExternalWeightsUploadFinishRequest {
  std::string upload_id = {};

  friend bool operator==(const ExternalWeightsUploadFinishRequest&,
                         const ExternalWeightsUploadFinishRequest&) = default;
};

struct ExternalWeightsUploadFinishResponse {
  std::string tinker_path = {};

  friend bool operator==(const ExternalWeightsUploadFinishResponse&,
                         const ExternalWeightsUploadFinishResponse&) = default;
};

/// GET archive, of servers before 0.36 (PROTOCOL 9.25).
struct CheckpointArchiveUrlResponse {
  std::string url = {};
  DateTime expires = {};

  friend bool operator==(const CheckpointArchiveUrlResponse&,
                         const CheckpointArchiveUrlResponse&) = default;
};

/// POST copy_weights (PROTOCOL 9.43): into a project, or, by older clients, a session's slot.
struct CopyWeightsRequest {
  std::optional<std::string> session_id = {};
  std::optional<std::int64_t> model_seq_id = {};
  std::optional<std::string> destination_project_id = {};
  std::string source_path = {};
  std::optional<std::int64_t> ttl_seconds = {};
  std::optional<Secret> weights_access_token = {};

  friend bool operator==(const CopyWeightsRequest&, const CopyWeightsRequest&) = default;
};

struct CopyWeightsResponse {
  std::string tinker_path = {};

  friend bool operator==(const CopyWeightsResponse&, const CopyWeightsResponse&) = default;
};

/// POST weights_info (PROTOCOL 9.21).
struct WeightsInfoRequest {
  std::string tinker_path = {};

  friend bool operator==(const WeightsInfoRequest&, const WeightsInfoRequest&) = default;
};

struct WeightsInfoResponse {
  std::string base_model = {};
  OptimizerConfig optimizer_config = {};
  bool is_lora = false;
  std::optional<std::int64_t> lora_rank = {};
  std::optional<bool> train_unembed = {};
  std::optional<bool> train_mlp = {};
  std::optional<bool> train_attn = {};

  friend bool operator==(const WeightsInfoResponse&, const WeightsInfoResponse&) = default;
};

/// PUT ttl (PROTOCOL 9.29).
struct SetTtlRequest {
  std::optional<std::int64_t> ttl_seconds = {};  ///< Absent removes the expiry; null is sent.

  friend bool operator==(const SetTtlRequest&, const SetTtlRequest&) = default;
};

}  // namespace tinker
