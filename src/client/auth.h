#pragma once

#include "session/environment.h"
#include "tinker/auth.h"

namespace tinker::client {

/// `environment` is for tests; empty: the process's own.
Future<void> check_accessible(RestOptions options, session::Environment environment);

}  // namespace tinker::client
