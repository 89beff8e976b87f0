#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "async/task.h"
#include "http/server_exchange.h"
#include "tinker/result.h"

namespace tinker::server {

class Service;

/// One request's body, as it counts against the limit `incoming_bytes` from its head to its answer.
/// Loop thread only.
class IncomingBody {
 public:
  IncomingBody(std::shared_ptr<Service> service, std::string owner);
  IncomingBody(const IncomingBody&) = delete;
  IncomingBody& operator=(const IncomingBody&) = delete;
  ~IncomingBody();

  /// The body takes `bytes` now. Fails with `rate_limited` where all owners together have too much,
  /// and this one more than its share. A small body and the only one of its owner always pass.
  [[nodiscard]] Result<void> grow_to(std::size_t bytes);

 private:
  std::shared_ptr<Service> service_;
  std::string owner_;
  std::size_t counted_ = 0;
};

/// A body without its coding.
struct PlainBody {
  std::string bytes = {};
  std::string hash = {};  ///< SHA-256, where it was asked for.
};

/// Receives and unpacks the body. Fails with status 413 beyond `limit` bytes, with 408 beyond the
/// limit `body_total_time`.
async::Task<PlainBody> receive_body(std::shared_ptr<Service> service,
                                    std::shared_ptr<IncomingBody> incoming,
                                    http::ServerRequest request,
                                    std::size_t limit,
                                    bool is_hashed);

}  // namespace tinker::server
