#pragma once

#include <string>
#include <string_view>

#include "server/call.h"
#include "server/records.h"
#include "tinker/result.h"

namespace tinker::server {

/// `target`, a path below this server, as a link for whoever has it: signed, and below the server's
/// public URL, else with the scheme and the host that the client used.
Result<std::string> signed_url(const Call& call, std::string_view target, Instant expires);

}  // namespace tinker::server
