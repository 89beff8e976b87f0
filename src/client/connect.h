#pragma once

#include <memory>
#include <string>

#include "client/state.h"
#include "session/environment.h"
#include "tinker/service_client.h"

namespace tinker::client {

/// A service without its public face. `environment` is for tests; empty: the process's own.
Result<std::shared_ptr<const ServiceState>> connect(ServiceOptions options,
                                                    session::Environment environment);

/// A sampler that another process made (R17.2).
Future<SamplingClient> restore_sampler(const std::string& text,
                                       SamplerHandleOptions options,
                                       session::Environment environment);

}  // namespace tinker::client
