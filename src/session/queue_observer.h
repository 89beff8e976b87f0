#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "session/session_core.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/promise.h"

namespace tinker::session {

/// What a full queue holds up.
enum class QueuedWork { training, model_creation, sampling };

/// Hears from the pollers how the server queues their requests, and tells people (R13): a log line
/// at most once a minute, and an event "queue_state" for each change. One per training client, per
/// sampling client and per model creation. Loop thread only.
class QueueStateObserver {
 public:
  /// `id`: model id, model name or sampler id.
  QueueStateObserver(std::shared_ptr<SessionCore> session, QueuedWork work, std::string id);

  /// A server said so. `reason` is its own text, if it gave one.
  void notify(const OpenEnum<QueueState>& state, std::optional<std::string> reason);

 private:
  void publish(const OpenEnum<QueueState>& state, const std::string& reason);
  void log(const std::string& reason);

  std::shared_ptr<SessionCore> session_;
  QueuedWork work_;
  std::string id_;
  std::optional<std::chrono::system_clock::time_point> last_logged_ = {};
  OpenEnum<QueueState> published_state_ = QueueState::active;
  std::string published_reason_ = {};
};

}  // namespace tinker::session
