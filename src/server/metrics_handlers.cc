#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

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

}  // namespace

async::Task<Reply> metrics(Call call) {
  const Service& service = *call.service;
  PrometheusText out;
  service.requests.write(out);
  write_tokens(service.usage, out);
  write_models(*service.models, out);
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
