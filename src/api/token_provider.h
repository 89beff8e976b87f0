#pragma once

#include "async/task.h"
#include "tinker/secret.h"

namespace tinker::api {

/// Where requests get their credential from. Asked on every attempt (R3.2). Loop thread only.
class TokenProvider {
 public:
  virtual ~TokenProvider() = default;

  /// The current credential; an empty one sends no header. Its error reaches the caller as it is
  /// and is not retried by the request that asked (R3.3).
  virtual async::Task<Secret> token() = 0;
  /// The same where it is known without asking anyone, else null; valid until the next call.
  virtual const Secret* known_token() { return nullptr; }

 protected:
  TokenProvider() = default;
  TokenProvider(const TokenProvider&) = default;
  TokenProvider& operator=(const TokenProvider&) = default;
};

}  // namespace tinker::api
