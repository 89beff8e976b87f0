#pragma once

#include <memory>

#include "async/task.h"
#include "http/server_exchange.h"
#include "server/service.h"

namespace tinker::server {

/// Answers one HTTP request: finds its row in the table of endpoints, checks the caller, reads the
/// body, calls the handler, writes what it returns. Errors become `{"detail": ...}` with the status
/// that fits.
async::Task<> answer(std::shared_ptr<Service> service,
                     http::ServerRequest request,
                     http::ResponseWriter writer);

/// The HTTP status of an error that a handler returned. Never 409, and 5xx only for our own faults.
int status_of(const Error& error) noexcept;

}  // namespace tinker::server
