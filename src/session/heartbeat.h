#pragma once

#include <memory>

#include "async/task.h"
#include "session/session_core.h"

namespace tinker::session {

/// Tells the server every 10 s that the session lives (R4.2, R4.3). Ends when the server says it is
/// finished, or with the scope. Has connections of its own, so that no flood of other requests can
/// delay it.
async::Task<> heartbeat(std::shared_ptr<SessionCore> session);

/// Asks for the dynamic configuration again and again (R2.2, R2.3).
async::Task<> refresh_dynamic_config(std::shared_ptr<SessionCore> session);

/// One request for it: 10 s, no HTTP-layer retries. `observer` may be empty.
async::Task<ClientDynamicConfigResponse> fetch_dynamic_config(
    std::shared_ptr<SessionCore> session, std::weak_ptr<api::AttemptObserver> observer);

}  // namespace tinker::session
