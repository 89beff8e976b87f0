#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/machine_memory.h"
#include "server/handlers.h"
#include "server/service.h"
#include "wire/prometheus_text.h"

namespace tinker::server {

namespace {

using wire::PrometheusText;

void write_gauge(PrometheusText& out,
                 std::string_view name,
                 std::string_view help,
                 std::size_t value) {
  out.family(name, "gauge", help);
  out.sample({}, static_cast<double>(value));
}

std::string_view name_of(UsageRecord::Kind kind) {
  switch (kind) {
    case UsageRecord::Kind::training: return "training";
    case UsageRecord::Kind::sampling_prefill: return "prefill";
    case UsageRecord::Kind::sampling_prefill_cached: return "prefill_cached";
    case UsageRecord::Kind::sampling_sample: return "sample";
    case UsageRecord::Kind::checkpoint: break;
  }
  return "";
}

void write_tokens(const UsageMeter& usage, PrometheusText& out) {
  out.family("tinker_server_tokens_total",
             "counter",
             "Tokens by what was done with them; prefill_cached are the hits of the prompt cache.");
  for (const auto& [key, count] : usage.totals()) {
    const auto& [model, kind] = key;
    if (kind == UsageRecord::Kind::checkpoint) continue;
    out.sample({{"model", model}, {"kind", name_of(kind)}}, static_cast<double>(count));
  }
}

void write_models(const ModelRegistry& models, PrometheusText& out) {
  out.family("tinker_server_model_loaded", "gauge", "Whether a model is in memory.");
  const auto loaded = models.loaded();
  for (const auto& model : models.capabilities()) {
    const auto& name = model.model_name.value_or("");
    const bool is_loaded = std::ranges::find(loaded, name) != loaded.end();
    out.sample({{"model", name}}, is_loaded ? 1 : 0);
  }
  write_gauge(out,
              "tinker_server_models_bytes",
              "What the loaded models may take: weights and caches.",
              models.loaded_bytes());
}

/// What each engine has to do. Names of one source share an engine, so they have the same numbers.
void write_engines(const ModelRegistry& models, PrometheusText& out) {
  std::vector<std::pair<std::string, EngineQueue>> queues;
  for (auto& name : models.loaded()) {
    if (const auto queue = models.queue(name)) queues.emplace_back(std::move(name), *queue);
  }
  const auto write = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, "gauge", help);
    for (const auto& [model, queue] : queues)
      out.sample({{"model", model}}, static_cast<double>(value(queue)));
  };
  write("tinker_server_engine_training_calls",
        "Training calls that the engine has, the one that is computed included.",
        [](const EngineQueue& queue) { return queue.training_calls; });
  write("tinker_server_engine_training_runs",
        "Training runs that these calls are of.",
        [](const EngineQueue& queue) { return queue.training_runs; });
  write("tinker_server_engine_computing_samples",
        "Samples that had a part of the engine's last batch.",
        [](const EngineQueue& queue) { return queue.samples_computing; });
  write("tinker_server_engine_waiting_samples",
        "Samples that the engine has, without those.",
        [](const EngineQueue& queue) { return queue.samples - queue.samples_computing; });
  write("tinker_server_engine_cache_bytes",
        "Keys and values of samples that are under way.",
        [](const EngineQueue& queue) { return queue.cache_bytes; });
}

/// Adapters to sample from that are in memory, by where else they are.
void write_snapshots(const Service& service, PrometheusText& out) {
  struct Sum {
    std::size_t count = 0;
    std::size_t bytes = 0;
    void add(const AdapterSnapshot& snapshot) {
      ++count;
      bytes += snapshot.bytes();
    }
  };
  Sum stored;
  Sum unnamed;
  for (const auto& [folder, cached] : service.adapters.entries()) stored.add(cached.weights);
  for (const auto& snapshot : service.samplers.ephemeral()) unnamed.add(snapshot);
  const auto write = [&](std::string_view name, std::string_view help, std::size_t Sum::* value) {
    out.family(name, "gauge", help);
    out.sample({{"kind", "checkpoint"}}, static_cast<double>(stored.*value));
    out.sample({{"kind", "unnamed"}}, static_cast<double>(unnamed.*value));
  };
  write("tinker_server_snapshots",
        "Adapters in memory to sample from: of checkpoints, and of saves without a name.",
        &Sum::count);
  write("tinker_server_snapshots_bytes",
        "What they take; a run in training may share them.",
        &Sum::bytes);
}

}  // namespace

async::Task<Reply> metrics(Call call) {
  const Service& service = *call.service;
  PrometheusText out;
  service.requests.write(out);
  write_tokens(service.usage, out);
  write_models(*service.models, out);
  write_engines(*service.models, out);
  write_snapshots(service, out);
  write_gauge(out,
              "tinker_server_resident_bytes",
              "Memory of the machine that the process has.",
              engine::resident_memory());
  write_gauge(out,
              "tinker_server_pending_operations",
              "Accepted operations without a result.",
              service.futures.pending());
  write_gauge(out,
              "tinker_server_waiting_requests",
              "Training requests that wait for those with lower numbers.",
              service.waiting_requests());
  write_gauge(out, "tinker_server_held_polls", "Polls that wait.", service.futures.waiting());
  write_gauge(out, "tinker_server_kept_results", "Results in memory.", service.futures.kept());
  write_gauge(out,
              "tinker_server_kept_results_bytes",
              "What the results in memory take.",
              service.futures.kept_bytes());
  write_gauge(out, "tinker_server_sessions", "Open sessions.", service.sessions.open());
  write_gauge(out, "tinker_server_runs", "Training runs in memory.", service.live_runs());
  write_gauge(out, "tinker_server_samplers", "Sampling sessions.", service.samplers.size());
  out.family("tinker_server_uptime_seconds", "gauge", "Since the server was started.");
  const auto up = service.loop()->now() - service.started_at;
  out.sample({}, std::chrono::duration<double>(up).count());
  co_return Reply{.body = std::move(out).take(),
                  .content_type = std::string(PrometheusText::kContentType)};
}

}  // namespace tinker::server
