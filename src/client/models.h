#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/task.h"
#include "client/state.h"
#include "tinker/service_client.h"
#include "tinker/trace_context.h"

namespace tinker::client {

/// Creates a LoRA model (PROTOCOL 9.9) and waits until it is there.
async::Task<std::shared_ptr<TrainingCore>> create_model(std::shared_ptr<session::Holder> holder,
                                                        std::string base_model,
                                                        LoraTrainingOptions options,
                                                        std::optional<TraceContext> trace);

/// What a model is to be made from.
struct Resume {
  std::string path = {};
  bool with_optimizer = false;
  FromStateOptions options = {};
};

/// A model with the weights of a checkpoint: in one request, or in two after a look at it, as the
/// server wants it (R11.9, R11.10).
async::Task<std::shared_ptr<TrainingCore>> resume_model(std::shared_ptr<session::Service> service,
                                                        session::HolderOptions service_options,
                                                        Resume resume,
                                                        std::optional<TraceContext> trace);

}  // namespace tinker::client
