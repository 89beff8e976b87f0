#include <algorithm>
#include <charconv>
#include <utility>

#include "base/logging.h"
#include "base/relative_path.h"
#include "base/strings.h"
#include "server/checkpoint_path.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/service.h"
#include "tinker/types/queries.h"

namespace tinker::server {

namespace {

constexpr std::int64_t kMaxPage = 1000;

/// Clients before 0.28 cannot read a list that names a checkpoint of kind `external` (PROTOCOL 10,
/// rule 12). One that does not say its release is taken for a new one.
bool knows_external(const Call& call) {
  std::string_view version = call.header("x-stainless-package-version");
  int major = 0;
  int minor = 0;
  const char* const begin = version.data();
  const char* const end = begin + version.size();
  const auto first = std::from_chars(begin, end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return true;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return true;
  return major > 0 || minor >= 28;
}

Checkpoint to_wire(const CheckpointRecord& record) {
  return {
      .checkpoint_id = record.path().checkpoint_id(),
      .checkpoint_type = record.kind,
      .time = record.created_at,
      .tinker_path = record.path().to_string(),
      .size_bytes = record.size_bytes,
      .is_public = record.is_public,
      .user_metadata = record.user_metadata,
      .expires_at = record.expires_at ? std::optional<DateTime>(*record.expires_at) : std::nullopt,
      .base_model = record.base_model};
}

/// A run with those of its checkpoints that the caller may see.
struct VisibleRun {
  RunRecord run = {};
  std::vector<CheckpointRecord> checkpoints = {};  ///< Oldest first.
};

TrainingRun to_wire(const VisibleRun& visible) {
  const auto& [record, checkpoints] = visible;
  TrainingRun out = {.training_run_id = record.run_id,
                     .base_model = record.base_model,
                     .model_owner = record.owner,
                     .is_lora = true,
                     .lora_rank = record.lora.rank,
                     .last_request_time = record.last_request_at,
                     .user_metadata = record.user_metadata};
  for (const auto& checkpoint : checkpoints) {
    if (checkpoint.kind == CheckpointType::training) out.last_checkpoint = to_wire(checkpoint);
    if (checkpoint.kind == CheckpointType::sampler)
      out.last_sampler_checkpoint = to_wire(checkpoint);
  }
  return out;
}

/// What the catalogue does not have yet of a run of the caller's that is in memory.
void add_live(Service& service, const std::string& caller, RunRecord& record) {
  if (const auto run = service.find_run(record.run_id, caller); run.ok()) {
    record.last_request_at = (*run)->record.last_request_at;
  }
}

/// What strangers may see of a checkpoint: all but what its owner wrote on it.
CheckpointRecord as_public(CheckpointRecord record) {
  record.user_metadata.reset();
  return record;
}

/// The run as `caller` may see it. Callers who do not own it see its public checkpoints only, and
/// neither its metadata nor the time of its last request.
Result<VisibleRun> see(Store& store, const std::string& caller, RunRecord run) {
  TINKER_TRY(auto checkpoints, store.checkpoints_of_run(run.run_id));
  if (run.owner == caller) {
    return VisibleRun{.run = std::move(run), .checkpoints = std::move(checkpoints)};
  }
  VisibleRun out = {.run = std::move(run)};
  for (auto& checkpoint : checkpoints) {
    if (checkpoint.is_public) out.checkpoints.push_back(as_public(std::move(checkpoint)));
  }
  out.run.user_metadata.clear();
  out.run.last_request_at =
      out.checkpoints.empty() ? out.run.created_at : out.checkpoints.back().created_at;
  return out;
}

/// The run of the path: one of the caller's or, where `scope` has them, one with public
/// checkpoints.
async::Task<VisibleRun> find_visible(Call call, AccessScope scope) {
  auto stored = call.service->disk.run([run_id = call.args[0], caller = call.caller.owner, scope](
                                           Store& store) -> Result<VisibleRun> {
    TINKER_TRY(auto run, store.find_run(run_id));
    if (!run || (run->owner != caller && scope == AccessScope::owned)) {
      return no_such("training run", run_id);
    }
    TINKER_TRY(auto visible, see(store, caller, *std::move(run)));
    if (visible.run.owner != caller && visible.checkpoints.empty()) {
      return no_such("training run", run_id);
    }
    return visible;
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto visible, co_await wait);
  add_live(*call.service, call.caller.owner, visible.run);
  co_return visible;
}

/// Changes a checkpoint of the caller's and notes that it did.
async::Task<> change(Call call,
                     std::string event,
                     Result<void> (*what)(Store& store, const TinkerPath& path)) {
  TINKER_CO_TRY(const auto path, path_of(call));
  auto search = call.service->own_checkpoint(path, call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  auto changed = call.service->disk.run([what, path](Store& store) { return what(store, path); });
  auto wait = async::until(std::move(changed));
  TINKER_CO_TRY(co_await wait);
  call.service->audit(call.caller, std::move(event), {{"tinker_path", path.to_string()}});
  co_return Result<void>();
}

CheckpointsListResponse to_list(const Call& call, const std::vector<CheckpointRecord>& records) {
  CheckpointsListResponse out;
  const bool with_external = knows_external(call);
  for (const auto& record : records) {
    if (record.kind != CheckpointType::external || with_external)
      out.checkpoints.push_back(to_wire(record));
  }
  return out;
}

}  // namespace

Result<TinkerPath> path_of(const Call& call) {
  return TinkerPath::parse(
      base::concat("tinker://", call.args[0], "/", call.args[1], "/", call.args[2]));
}

async::Task<TrainingRunsResponse> list_training_runs(Call call, ListTrainingRunsQuery query) {
  if (query.limit < 0 || query.offset < 0) {
    co_return bad_request(base::concat(
        "limit and offset: expected 0 or more, found ", query.limit, " and ", query.offset));
  }
  auto stored = call.service->disk.run([owner = call.caller.owner,
                                        query](Store& store) -> Result<Page<VisibleRun>> {
    const PageRange range = {.limit = std::min(query.limit, kMaxPage), .offset = query.offset};
    TINKER_TRY(auto page,
               store.list_runs(owner, query.project_id.value_or(""), range, query.access_scope));
    Page<VisibleRun> out = {.total = page.total};
    for (auto& record : page.items) {
      TINKER_TRY(auto visible, see(store, owner, std::move(record)));
      out.items.push_back(std::move(visible));
    }
    return out;
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto found, co_await wait);
  TrainingRunsResponse out = {.cursor = {.offset = query.offset,
                                         .limit = std::min(query.limit, kMaxPage),
                                         .total_count = found.total}};
  for (auto& visible : found.items) {
    add_live(*call.service, call.caller.owner, visible.run);
    out.training_runs.push_back(to_wire(visible));
  }
  co_return out;
}

async::Task<TrainingRun> get_training_run(Call call, AccessQuery query) {
  auto search = find_visible(std::move(call), query.access_scope);
  TINKER_CO_TRY(const auto visible, co_await std::move(search));
  co_return to_wire(visible);
}

async::Task<CheckpointsListResponse> checkpoints_of_run(Call call, AccessQuery query) {
  auto search = find_visible(call, query.access_scope);
  TINKER_CO_TRY(const auto visible, co_await std::move(search));
  co_return to_list(call, visible.checkpoints);
}

async::Task<CheckpointsListResponse> list_checkpoints(Call call, ListCheckpointsQuery query) {
  if (query.limit < 0 || query.offset < 0) {
    co_return bad_request(base::concat(
        "limit and offset: expected 0 or more, found ", query.limit, " and ", query.offset));
  }
  auto stored = call.service->disk.run([owner = call.caller.owner, query](Store& store) {
    return store.list_checkpoints(
        owner, {.limit = std::min(query.limit, kMaxPage), .offset = query.offset});
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(const auto page, co_await wait);
  auto out = to_list(call, page.items);
  out.cursor = Cursor{
      .offset = query.offset, .limit = std::min(query.limit, kMaxPage), .total_count = page.total};
  co_return out;
}

async::Task<CheckpointSearchResponse> search_checkpoints(Call call,
                                                         CheckpointSearchRequest request) {
  const auto* const users = std::get_if<UserSearchOwner>(&request.owner);
  CheckpointQuery query = {.caller = call.caller.owner,
                           .with_public = !std::holds_alternative<OwnSearchOwner>(request.owner),
                           .project_ids = std::move(request.project_ids),
                           .user_metadata = std::move(request.user_metadata),
                           .base_models = std::move(request.base_models),
                           .limit = request.limit + 1};  // to see whether there are more
  if (users != nullptr) query.owners = users->owner_urns;
  if (request.checkpoint_type) {
    query.kind = request.checkpoint_type->known();
    if (!query.kind) {
      co_return bad_request(
          base::concat("checkpoint_type: expected training, sampler or external, "
                       "found ",
                       base::quoted(request.checkpoint_type->text())));
    }
  }
  if (request.cursor) {
    query.after = {request.cursor->last_created_at.instant(), request.cursor->last_checkpoint_uuid};
  }
  auto stored =
      call.service->disk.run([query](Store& store) { return store.search_checkpoints(query); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto found, co_await wait);
  CheckpointSearchResponse out;
  const bool has_more = std::ssize(found) > request.limit;
  if (has_more) found.pop_back();
  for (const auto& record : found) {
    const bool is_own = record.owner == call.caller.owner;
    out.checkpoints.push_back(to_wire(is_own ? record : as_public(record)));
  }
  if (has_more) {
    out.next_cursor =
        CheckpointSearchCursor{.last_created_at = found.back().created_at,
                               .last_checkpoint_uuid = found.back().path().to_string()};
  }
  co_return out;
}

async::Task<WeightsInfoResponse> weights_info(Call call, WeightsInfoRequest request) {
  auto search = call.service->readable_checkpoint(request.tinker_path, call.caller.owner);
  TINKER_CO_TRY(const auto record, co_await std::move(search));
  co_return WeightsInfoResponse{.base_model = record.base_model,
                                .optimizer_config = record.optimizer,
                                .is_lora = true,
                                .lora_rank = record.lora.rank,
                                .train_unembed = record.lora.train_unembed,
                                .train_mlp = record.lora.train_mlp,
                                .train_attn = record.lora.train_attn};
}

async::Task<> delete_checkpoint(Call call) {
  return change(std::move(call), "checkpoint_delete", [](Store& store, const TinkerPath& path) {
    return store.delete_checkpoint(path);
  });
}

async::Task<> publish_checkpoint(Call call) {
  return change(std::move(call), "checkpoint_publish", [](Store& store, const TinkerPath& path) {
    return store.set_public(path, true);
  });
}

async::Task<> unpublish_checkpoint(Call call) {
  return change(std::move(call), "checkpoint_unpublish", [](Store& store, const TinkerPath& path) {
    return store.set_public(path, false);
  });
}

async::Task<> set_ttl(Call call, SetTtlRequest request) {
  TINKER_CO_TRY(const auto path, path_of(call));
  if (request.ttl_seconds) {
    TINKER_CO_TRY(Store::check_ttl(*request.ttl_seconds));
  }
  auto search = call.service->own_checkpoint(path, call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  std::optional<Instant> expires;
  if (request.ttl_seconds)
    expires = call.service->now() + std::chrono::seconds(*request.ttl_seconds);
  auto changed = call.service->disk.run(
      [path, expires](Store& store) { return store.set_expiry(path, expires); });
  auto wait = async::until(std::move(changed));
  co_return co_await wait;
}

async::Task<CopyWeightsResponse> copy_weights(Call call, CopyWeightsRequest request) {
  if (request.ttl_seconds) {
    TINKER_CO_TRY(Store::check_ttl(*request.ttl_seconds));
  }
  const std::string header(call.header("x-tinker-weights-access-token"));
  const Secret token = request.weights_access_token.value_or(Secret(header));
  auto search = call.service->readable_checkpoint(request.source_path, call.caller.owner, token);
  TINKER_CO_TRY(const auto source, co_await std::move(search));
  if (call.service->imported.find(source.path()) != nullptr) {
    co_return bad_request(
        base::concat(request.source_path, " was imported: it can be sampled from, not copied"));
  }
  RunRecord run = {.owner = call.caller.owner,
                   .base_model = source.base_model,
                   .lora = source.lora,
                   .optimizer = source.optimizer,
                   .created_at = call.service->now(),
                   .last_request_at = call.service->now()};
  if (request.session_id && request.model_seq_id) {
    auto finding = call.service->sessions.find_open(*request.session_id, call.caller.owner);
    TINKER_CO_TRY(const auto session, co_await std::move(finding));
    run.run_id = base::concat(*request.session_id, ":train:", *request.model_seq_id);
    run.session_id = *request.session_id;
    run.project_id = session->record.project_id;
  } else if (request.destination_project_id) {
    // A repeat of the call has the same key, and so the same run.
    const std::string key(call.header("x-idempotency-key"));
    run.run_id = base::concat(
        "copy-",
        key.empty() ? call.service->random_id() : short_hash(call.caller.owner + "\n" + key),
        ":train:0");
    run.project_id = *request.destination_project_id;
  } else {
    co_return bad_request(
        "copy_weights: expected destination_project_id, or session_id and model_seq_id");
  }
  std::optional<Instant> expires;
  if (request.ttl_seconds)
    expires = call.service->now() + std::chrono::seconds(*request.ttl_seconds);
  auto stored =
      call.service->disk.run([from = source, run, expires](Store& store) -> Result<TinkerPath> {
        TINKER_TRY(const auto known, store.find_run(run.run_id));
        if (known && known->owner == run.owner) {  // a repeat
          const TinkerPath there = {
              .training_run_id = run.run_id, .kind = from.kind, .name = from.name};
          TINKER_TRY(const auto copy, store.find_checkpoint(there));
          if (copy) return there;
        }
        TINKER_TRY(const auto copy, store.copy_checkpoint(from, run, expires));
        return copy.path();
      });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(const auto path, co_await wait);
  TINKER_LOG(call.service->options().logger,
             info,
             "checkpoint ",
             path.to_string(),
             " is a copy of ",
             source.path().to_string());
  co_return CopyWeightsResponse{.tinker_path = path.to_string()};
}

}  // namespace tinker::server
