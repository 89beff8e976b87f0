#pragma once

#include <cstdint>
#include <memory>

#include "async/task.h"
#include "session/session_core.h"
#include "session/watch.h"
#include "tinker/types/model_input.h"
#include "tinker/types/promise.h"
#include "tinker/unique_function.h"

namespace tinker::session {

/// How large a request with this input is, roughly (R10.3).
[[nodiscard]] std::int64_t estimate_bytes(const ModelInput& input);

/// Makes the call of a sample, observed by the watch.
using SampleCall = UniqueFunction<async::Task<UntypedApiFuture>(const std::shared_ptr<Watch>&)>;

/// Sends one sample as soon as the dispatch limits allow, and again for as long as the server asks
/// to slow down (R10.4 to R10.6): at most 400 at a time, 10 when a back-off is recent, and as many
/// bytes as were configured, of which a recent back-off makes each sample take 20 times as many.
/// All is given back when the sample is accepted, or failed.
///
/// `make_call` makes the request, always with the same seq_id (R10.2), without HTTP-layer retries.
/// `watch` tells of the wait; null: one for this submission alone does.
async::Task<UntypedApiFuture> submit_sample(std::shared_ptr<SessionCore> session,
                                            std::int64_t estimated_bytes,
                                            SampleCall make_call,
                                            std::shared_ptr<Watch> watch = nullptr);

}  // namespace tinker::session
