#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/server_exchange.h"
#include "server/access.h"
#include "server/run_journal.h"
#include "tinker/http.h"

namespace tinker::server {

class Service;

/// A request as its handler sees it, besides its body. Loop thread only.
struct Call {
  std::shared_ptr<Service> service;
  http::ServerRequest request;
  http::ResponseWriter writer;  ///< Only for handlers that send their answer piece by piece.
  Caller caller = {};
  std::vector<std::string> args = {};       ///< What stands for the {names} of the path, decoded.
  std::string payload_hash = {};            ///< SHA-256 of the body, where it begins work.
  RequestSource source = {};                ///< Of a replay, `request` and `writer` are null.
  std::shared_ptr<const void> charge = {};  ///< While it lives, the body counts as accepted.

  [[nodiscard]] std::string_view header(std::string_view name) const {
    if (source.is_replay) {
      return name == "content-type" ? std::string_view(source.content_type) : std::string_view();
    }
    return request.headers().find(name).value_or(std::string_view());
  }
};

/// An answer of a handler that does not just return a value of the protocol.
struct Reply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  http::Headers headers = {};
  bool is_streamed = false;  ///< The handler has sent it.
  /// Called when the answer was handed to the connection.
  std::string delivered_id = {};
};

}  // namespace tinker::server
