#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "api/api_client.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "session/session_core.h"
#include "tinker/types/promise.h"

namespace tinker::session {

/// Tells the server to stop work on samples that nobody wants any more (R6.25–R6.29), in the
/// background. One per holder. Loop thread only; may die on any thread.
class Canceller : public std::enable_shared_from_this<Canceller> {
 public:
  explicit Canceller(std::shared_ptr<SessionCore> session) : session_(std::move(session)) {}

  /// Queues a cancellation, if the server wants them at this moment (`sample_cancel_enabled`).
  void abandon(std::string request_id);
  [[nodiscard]] bool is_enabled() const noexcept;

 private:
  static async::Task<> drain(std::shared_ptr<Canceller> self);
  static async::Task<> cancel_one(std::shared_ptr<Canceller> self, std::string request_id);

  std::shared_ptr<SessionCore> session_;
  std::deque<std::string> queue_ = {};
  bool is_draining_ = false;
  std::size_t in_flight_ = 0;
  async::Signal one_done_;
};

/// Submits a sample with one HTTP call. Unlike a plain call it does not end when the caller's scope
/// is cancelled, because the server may have accepted the sample already (D17): the answer is then
/// waited for in the background, and the request it names is abandoned. With server-side
/// cancellation off the call is cancelled.
///
/// To be used inside the retry loops, so that nothing is sent anew after the cancellation.
async::Task<UntypedApiFuture> submit_cancellable(std::shared_ptr<SessionCore> session,
                                                 std::shared_ptr<Canceller> canceller,
                                                 api::Call call);

}  // namespace tinker::session
