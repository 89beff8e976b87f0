#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::session {

/// Looks up a variable of the environment, so that tests can bring their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// That of this process.
Environment process_environment();

/// The value of `name`; nothing when it is unset or empty, which the protocol treats alike. An
/// empty `environment` stands for the process's own.
std::optional<std::string> variable(const Environment& environment, const char* name);

/// The service itself; everything else is a compatible server.
inline constexpr std::string_view kOfficialBaseUrl =
    "https://tinker.thinkingmachines.dev/services/tinker-prod";

/// The server to talk to, normalised (R3.18): `argument`, else `TINKER_BASE_URL`, else the official
/// one; empty counts as unset. The error says which of them cannot be used.
Result<std::string> resolve_base_url(std::string_view argument, const Environment& environment);

/// Whether a base URL leads to the official service, at whichever path.
bool is_official_host(std::string_view base_url);

}  // namespace tinker::session
