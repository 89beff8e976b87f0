#pragma once

#include <memory>
#include <string>

#include "async/task.h"
#include "client/state.h"
#include "tinker/service_client.h"
#include "tinker/trace_context.h"
#include "tinker/types/sample.h"

namespace tinker::client {

/// What can be wrong with a source and with options before anything is sent (R10.1, R4.5).
Result<void> check_sampler(const SamplingSource& source, const SamplingClientOptions& options);

/// Asks the server for a sampling session on `source` (R10.1).
async::Task<std::shared_ptr<SamplingCore>> open_sampler(std::shared_ptr<session::Holder> holder,
                                                        SamplingSource source,
                                                        SamplingClientOptions options);

/// What can be wrong with a request before it is sent (R10.11).
Result<void> check_sample(const SampleRequest& request);
/// What can be wrong with its result (R10.12).
Result<void> check_answer(const SampleRequest& request, const SampleResponse& answer);

/// One sample from its submission to its result, repeated as the client's retry configuration says.
async::Task<SampleResponse> run_sample(std::shared_ptr<SamplingCore> core,
                                       SampleRequest request,
                                       std::shared_ptr<session::RetryHandler> retry_handler,
                                       std::optional<TraceContext> trace);

}  // namespace tinker::client
