#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "api/api_client.h"
#include "async/task.h"
#include "session/session_core.h"
#include "tinker/types/promise.h"

namespace tinker::client {

/// What is known of one save while it is tried again and again.
struct SaveAttempts {
  std::string model_id = {};
  std::string checkpoint_id = {};  ///< "weights/step-10".
  /// When an attempt began that got no answer, the first one: it may have been carried out.
  std::optional<async::TimePoint> unanswered_since = {};
  /// The path of the checkpoint, when such an attempt turns out to have made it.
  std::optional<std::string> saved_as = {};
};

/// One round of a save. The server refuses a name that exists with 409; where an earlier round got
/// no answer, that may be our own checkpoint. It is, if the list of checkpoints shows it with a
/// time after that round began, by the server's clock: then the round succeeds without a request
/// id, and `saved_as` is set.
async::Task<UntypedApiFuture> save_round(std::shared_ptr<session::SessionCore> session,
                                         api::Call call,
                                         std::shared_ptr<SaveAttempts> attempts);

}  // namespace tinker::client
