#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/types/client_config.h"

namespace tinker::session {

/// What another process needs to sample from the same weights (R17.1). It carries no credential and
/// no header of the user's: unlike the official one, which lets secret headers out (R17.3, D8).
struct SamplerHandle {
  std::string session_id = {};
  std::string sampling_session_id = {};
  std::string base_url = {};
  ClientConfigResponse config = {};
  ClientDynamicConfigResponse dynamic_config = {};
  bool record_stability_info = false;

  friend bool operator==(const SamplerHandle&, const SamplerHandle&) = default;
};

/// The text that the official SDK writes and reads: URL-safe base64 of compact JSON.
Result<std::string> encode_sampler_handle(const SamplerHandle& handle);

/// Reads one, also the official SDK's (R17.2). A credential or headers inside are passed over. The
/// error never shows what the text contains.
Result<SamplerHandle> decode_sampler_handle(std::string_view text);

}  // namespace tinker::session
