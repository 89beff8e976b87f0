#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "http/server_exchange.h"
#include "server/call.h"
#include "server/service.h"

namespace tinker::server {

/// Answers one HTTP request: finds its row in the table of endpoints, checks the caller, reads the
/// body, calls the handler, writes what it returns. Errors become `{"detail": ...}` with the status
/// that fits.
async::Task<> answer(std::shared_ptr<Service> service,
                     http::ServerRequest request,
                     http::ResponseWriter writer);

/// Does again what a journal says was accepted: `type` is the endpoint's path, `body` the request's
/// body. Ends when it is accepted again.
async::Task<> replay(Call call, std::string type, std::string body);

/// The HTTP status of an error that a handler returned. Never 409, and 5xx only for our own faults.
int status_of(const Error& error) noexcept;

/// A row of the table, as tests go through it.
struct EndpointName {
  http::Method method;
  std::string_view path;  ///< Below /api/v1/; {names} stand for one segment each.
};
std::vector<EndpointName> endpoint_names();

}  // namespace tinker::server
