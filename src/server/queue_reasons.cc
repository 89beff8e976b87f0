#include "server/queue_reasons.h"

#include <algorithm>

#include "base/strings.h"

namespace tinker::server {

std::string counted(std::size_t count, std::string_view what) {
  return base::concat(count, " ", what, count == 1 ? "" : "s");
}

std::string shared_with_others(const EngineQueue& queue) {
  const std::size_t others = queue.training_runs - std::min<std::size_t>(queue.training_runs, 1);
  if (others == 0 && queue.samples == 0) return {};
  return base::concat("shares the engine with ",
                      counted(others, "other training run"),
                      " and ",
                      counted(queue.samples, "sample"));
}

StillPending why_sample_waits(SampleProgress::Stage stage,
                              const ModelRegistry& models,
                              const std::string& model) {
  const auto queue = models.queue(model);
  if (!queue) {
    return {.state = QueueState::paused_capacity, .reason = base::concat("loading ", model)};
  }
  switch (stage) {
    case SampleProgress::Stage::computing: break;
    case SampleProgress::Stage::queued:
      if (queue->samples + queue->training_calls == 0) break;  // its weights are being read
      return {.reason = base::concat("waits for the engine, which has ",
                                     counted(queue->samples, "sample"),
                                     " and ",
                                     counted(queue->training_calls, "training call"))};
    case SampleProgress::Stage::no_room:
      return {.state = QueueState::paused_capacity,
              .reason = base::concat("waits for room in the cache, which ",
                                     counted(queue->samples_computing, "sample"),
                                     queue->samples_computing == 1 ? " has" : " share")};
  }
  return {};
}

}  // namespace tinker::server
