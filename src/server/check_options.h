#pragma once

#include "tinker/local_server.h"
#include "tinker/result.h"

namespace tinker::server {

/// What can be told of options before anything is opened or fetched. Fails with `invalid_argument`
/// for those that no server can have, or should not.
Result<void> check_options(const LocalServerOptions& options);

}  // namespace tinker::server
