#pragma once

#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "tinker/http.h"
#include "tinker/testing/matchers.h"

namespace tinker::testing {

/// A `Result<http::Response>` with that body.
inline auto HasBody(std::string body) {
  return IsOkAndHolds(::testing::Field(&http::Response::body, std::move(body)));
}
inline auto HasStatus(int status) {
  return IsOkAndHolds(::testing::Field(&http::Response::status, status));
}

}  // namespace tinker::testing
