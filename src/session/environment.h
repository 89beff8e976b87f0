#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "tinker/result.h"

namespace tinker::session {

using base::Environment;
using base::process_environment;
using base::variable;

/// The service itself; everything else is a compatible server.
inline constexpr std::string_view kOfficialBaseUrl =
    "https://tinker.thinkingmachines.dev/services/tinker-prod";

/// The server to talk to, normalised (R3.18): `argument`, else `TINKER_BASE_URL`, else the official
/// one; empty counts as unset. The error says which of them cannot be used.
Result<std::string> resolve_base_url(std::string_view argument, const Environment& environment);

/// Whether a base URL leads to the official service, at whichever path.
bool is_official_host(std::string_view base_url);

}  // namespace tinker::session
