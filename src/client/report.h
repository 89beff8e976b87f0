#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "async/task.h"
#include "session/session_core.h"

namespace tinker::client {

/// Whether an error says that an operation went wrong: not that its caller gave it up, nor that an
/// earlier one went wrong, which reports itself.
inline bool is_failure(const Error& error) noexcept {
  return error.code != ErrorCode::cancelled && error.code != ErrorCode::deadline_exceeded &&
         error.code != ErrorCode::predecessor_failed;
}

/// Runs an operation and tells the server of the error that its caller gets (R14.9).
template <typename T>
async::Task<T> reported(std::shared_ptr<session::SessionCore> session,
                        std::string operation,
                        async::Task<T> task) {
  auto wait = std::move(task).late();
  auto late = co_await wait;
  const Result<T>& result = *late;
  if (!result.ok() && session->telemetry && is_failure(result.error())) {
    session->telemetry->fatal(result.error(), operation);
  }
  co_return std::move(late);
}

}  // namespace tinker::client
