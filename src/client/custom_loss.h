#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "async/task.h"
#include "client/chunks.h"
#include "client/state.h"
#include "tinker/loss_handle.h"
#include "tinker/losses.h"
#include "tinker/trace_context.h"

namespace tinker::client {

/// A batch whose loss this client computes: a forward pass for the logprobs, the loss and its
/// slopes here, then a pass with a linear loss that has the same slopes (BEHAVIOUR 9).
struct CustomBatch {
  std::shared_ptr<const std::vector<Datum>> data = {};
  loss::BatchFunction function = {};
  std::vector<Datum> forward_data = {};
  std::vector<Chunk> forward_chunks = {};
  std::vector<Chunk> backward_chunks = {};
  // The ids of both passes are taken with the call, so that what is called next comes after both.
  std::shared_ptr<Sequencer::Turn> forward_turn = {};
  std::shared_ptr<Sequencer::Turn> backward_turn = {};
  std::optional<TraceContext> trace = {};
};

/// Checks the data and takes the ids. Calling thread.
Result<CustomBatch> prepare_custom(const std::shared_ptr<TrainingCore>& core,
                                   std::vector<Datum> data,
                                   loss::BatchFunction function);

async::Task<ForwardBackwardOutput> run_custom(std::shared_ptr<TrainingCore> core,
                                              CustomBatch custom);

/// Whether the data have what the loss reads, in the ranks it wants (R9.9).
Result<void> check_inputs(std::span<const Datum> data, const loss::Formula& formula);

/// Tells the session of a loss, once (R9.4 to R9.8).
async::Task<LossHandle> create_loss(std::shared_ptr<session::Service> service,
                                    loss::Formula formula,
                                    std::optional<TraceContext> trace);

}  // namespace tinker::client
