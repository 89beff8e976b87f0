#pragma once

#include <string>
#include <string_view>

#include "server/records.h"
#include "tinker/result.h"

/// Links that open one thing for whoever has them, for some time (PROTOCOL 9.37): the query ends
/// with "expires=UNIX&signature=HEX". The signature covers every byte before it, so a link opens
/// the target that it was made for and no other spelling of one.
namespace tinker::server {

/// `target` is a path and perhaps a query. Fails with `invalid_argument` for one whose query
/// already has "expires" or "signature".
Result<std::string> sign_link(std::string_view target, Instant expires, std::string_view key);

/// Fails with `permission_denied`.
Result<void> check_link(std::string_view target, Instant now, std::string_view key);

}  // namespace tinker::server
