#pragma once

#include <string_view>

#include "tinker/local_server.h"
#include "tinker/result.h"

namespace tinker::server {

/// What can be told of options before anything is opened or fetched. Fails with `invalid_argument`
/// for those that no server can have, or should not.
Result<void> check_options(const LocalServerOptions& options);

/// Whether other machines may have to send their keys unencrypted.
bool is_in_clear(const LocalServerOptions& options);

/// Whether `url` leads to this machine, whoever follows it.
bool is_local_url(std::string_view url);

}  // namespace tinker::server
