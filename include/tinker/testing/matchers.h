#pragma once

#include <gmock/gmock.h>

#include "tinker/result.h"

namespace tinker {

/// How GoogleTest shows a result that it did not expect.
template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  if (!result.ok()) {
    *out << "error: " << result.error().to_string();
  } else if constexpr (std::is_void_v<T>) {
    *out << "ok";
  } else {
    *out << "ok: " << ::testing::PrintToString(*result);
  }
}

}  // namespace tinker

/// GoogleMock matchers for `Result`. Needs gmock; nothing else of the library does.
namespace tinker::testing {

MATCHER(IsOk, negation ? "is an error" : "is ok") {
  if (!arg.ok()) *result_listener << "error: " << arg.error().to_string();
  return arg.ok();
}

MATCHER_P(IsOkAndHolds, value_matcher, "is ok and holds the expected value") {
  if (!arg.ok()) {
    *result_listener << "error: " << arg.error().to_string();
    return false;
  }
  return ::testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

MATCHER_P2(IsError, code, message_matcher, "is the expected error") {
  if (arg.ok()) {
    *result_listener << "it is ok";
    return false;
  }
  *result_listener << "error: " << arg.error().to_string() << " (" << to_string(arg.error().code)
                   << ")";
  return arg.error().code == code &&
         ::testing::ExplainMatchResult(message_matcher, arg.error().to_string(), result_listener);
}

}  // namespace tinker::testing
