#pragma once

#include <memory>

#include "async/semaphore.h"
#include "http/server_exchange.h"
#include "support/load_server/api.h"

namespace tinker::load_server {

/// What all handlers share. Loop thread only.
struct Service {
  explicit Service(ServerOptions options) : api(std::move(options)) {}

  Api api;
  async::Signal released = {};
};

/// Answers a request as its plan says, faults included.
async::Task<> serve(std::shared_ptr<Service> service,
                    http::ServerRequest request,
                    http::ResponseWriter writer);

}  // namespace tinker::load_server
