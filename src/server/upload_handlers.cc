// Adapters that were trained elsewhere, sent by their owners (PROTOCOL 14): `start` names a signed
// link for each file, the client PUTs them, and `finish` makes a run with one checkpoint of them.

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/logging.h"
#include "base/relative_path.h"
#include "base/strings.h"
#include "engine/checkpoint.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/run_creation.h"
#include "server/service.h"
#include "server/signed_url.h"

namespace tinker::server {

namespace {

std::string run_of_upload(std::string_view id) {
  return base::concat("upload-", id, ":train:0");
}

TinkerPath path_of_upload(std::string_view id) {
  return {.training_run_id = run_of_upload(id), .name = "uploaded"};
}

/// Clients try again.
Error is_being_finished(std::string_view id) {
  return {.code = ErrorCode::closed,
          .message = base::concat("upload '", id, "' is being finished")};
}

Error too_large(std::string_view name, std::size_t most) {
  return {.code = ErrorCode::unexpected_status,
          .message = base::concat(name, ": expected at most ", most, " bytes"),
          .http_status = 413};
}

Result<CheckpointPlace> make_folder(Store& store) {
  TINKER_TRY(auto place, store.begin_checkpoint());
  std::error_code error;
  std::filesystem::create_directory(place.folder, error);
  if (!error) return place;
  return Error{.code = ErrorCode::io_error,
               .message = base::concat("make ", place.folder.string(), ": ", error.message())};
}

/// Makes the folder of an upload that has its entry. Goes on when the client disconnects: only the
/// folders of entries are removed before the server starts again.
async::Task<> open_upload(std::shared_ptr<Service> service, std::string id) {
  auto made = service->disk.run([](Store& store) { return make_folder(store); });
  auto wait = async::until(std::move(made));
  auto place = co_await wait;
  if (!place.ok()) {
    service->uploads.remove(id);
    co_return std::move(place).error();
  }
  service->uploads.find(id)->place = *std::move(place);
  co_return Result<void>();
}

std::string describe(const LoraConfig& lora) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return base::concat("rank ",
                      lora.rank,
                      ", train_unembed ",
                      flag(lora.train_unembed),
                      ", train_mlp ",
                      flag(lora.train_mlp),
                      ", train_attn ",
                      flag(lora.train_attn));
}

Result<void> sync_file(const std::string& path) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.get()) != 0) return base::system_error("sync", path);
  return {};
}

/// Gives the files of `from` a second name in `to`: who still sends one cannot change what is
/// there, and `from` keeps them for another try. Blocks.
Result<void> take_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const auto name : kUploadFiles) {
    std::error_code error;
    std::filesystem::create_hard_link(from / name, to / name, error);
    if (error == std::errc::no_such_file_or_directory) {
      return bad_request(base::concat(name, " was not uploaded"));
    }
    if (error) {  // no hard links here
      std::filesystem::copy_file(from / name, to / name, error);
      if (!error) {
        TINKER_TRY(sync_file((to / name).string()));
      }
    }
    if (error) {
      return Error{.code = ErrorCode::io_error,
                   .message = base::concat("link ", (to / name).string(), ": ", error.message())};
    }
  }
  return {};
}

/// Makes a checkpoint in `folder` of the files of `from`, if they are an adapter of the model and
/// as the client said. Blocks.
Result<void> complete(const std::filesystem::path& from,
                      const std::filesystem::path& folder,
                      const engine::ModelConfig& model,
                      const LoraConfig& said) {
  TINKER_TRY(take_files(from, folder));
  TINKER_TRY(auto mark, base::AtomicFile::create((folder / "checkpoint_complete").string()));
  TINKER_TRY(mark.commit());
  TINKER_TRY(const auto checkpoint,
             engine::load_checkpoint(folder, model, CheckpointParts::weights));
  const auto& shape = checkpoint.layout->config();
  const LoraConfig found = {.rank = static_cast<std::int64_t>(shape.rank),
                            .seed = said.seed,
                            .train_unembed = shape.train_unembed,
                            .train_mlp = shape.train_mlp,
                            .train_attn = shape.train_attn};
  if (found != said) {
    return bad_request(base::concat("the adapter has ",
                                    describe(found),
                                    ", but the lora_config of the upload said ",
                                    describe(said)));
  }
  return base::sync_folder(folder.string());
}

void drop_folder(Service& service, CheckpointPlace place) {
  auto dropped = service.disk.run([place = std::move(place)](Store& store) -> Result<void> {
    store.abandon_checkpoint(place);
    return {};
  });
  (void)std::move(dropped).then([](const Result<void>&) {});
}

/// Whatever fails, the upload keeps its files for another try.
async::Task<> finish(std::shared_ptr<Service> service, std::string id, Upload upload) {
  const RunRecord& run = upload.run;
  TINKER_CO_TRY(const auto* const config, service->models->config(run.base_model));
  auto made = service->disk.run([](Store& store) { return make_folder(store); });
  auto making = async::until(std::move(made));
  TINKER_CO_TRY(const auto place, co_await making);
  auto completed = service->work(
      [from = upload.place.folder, to = place.folder, model = *config, lora = run.lora] {
        return complete(from, to, model, lora);
      });
  auto completing = async::until(std::move(completed));
  if (const auto done = co_await completing; !done.ok()) {
    drop_folder(*service, place);
    co_return done;
  }
  const TinkerPath path = path_of_upload(id);
  const CheckpointRecord record = {.run_id = path.training_run_id,
                                   .kind = path.kind,
                                   .name = path.name,
                                   .owner = run.owner,
                                   .base_model = run.base_model,
                                   .lora = run.lora,
                                   .optimizer = run.optimizer};
  auto stored = service->disk.run([run, record, place](Store& store) -> Result<void> {
    TINKER_TRY(store.commit_run(run, record, place));
    return {};
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(co_await wait);
  service->uploads.remove(id);
  drop_folder(*service, upload.place);
  TINKER_LOG(service->options().logger, info, "checkpoint ", path.to_string(), " is uploaded");
  service->count(run, UsageRecord::Kind::checkpoint, 1);
  co_return Result<void>();
}

/// Goes on when the client disconnects, because the client repeats the call.
async::Task<> finish_once(std::shared_ptr<Service> service, std::string id, Upload upload) {
  auto finishing = finish(service, id, std::move(upload));
  const auto done = co_await std::move(finishing);
  if (auto* const left = service->uploads.find(id)) left->is_finishing = false;
  co_return done;
}

using UploadFile = std::shared_ptr<base::AtomicFile>;

/// Writes the body of the request to `file`, and gives that its name.
async::Task<> receive_file(Call call, UploadFile file) {
  const auto& service = call.service;
  const std::size_t most = service->options().limits.upload_bytes;
  for (std::size_t left = most;;) {
    auto next = call.request.read();
    TINKER_CO_TRY(std::string piece, co_await next);
    if (piece.empty()) break;
    if (piece.size() > left) co_return too_large(call.args[1], most);
    left -= piece.size();
    auto written = service->work([file, piece = std::move(piece)] { return file->write(piece); });
    auto writing = async::until(std::move(written));
    TINKER_CO_TRY(co_await writing);
  }
  auto committed = service->work([file] { return file->commit(); });
  auto committing = async::until(std::move(committed));
  co_return co_await committing;
}

}  // namespace

async::Task<ExternalWeightsUploadStartResponse> upload_start(
    Call call, ExternalWeightsUploadStartRequest request) {
  const auto& service = call.service;
  TINKER_CO_TRY(service->models->facts(request.base_model));
  TINKER_CO_TRY(check_rank(request.lora_config));
  TINKER_CO_TRY(service->uploads.check_room(call.caller.owner));
  const std::string id = service->random_id();
  const Instant expires = service->now() + service->options().limits.upload_time;
  ExternalWeightsUploadStartResponse out = {
      .upload_id = id, .expires = Instant(std::chrono::floor<std::chrono::seconds>(expires))};
  for (const auto name : kUploadFiles) {
    const std::string target = base::concat("/api/v1/upload/", id, "/", name);
    TINKER_CO_TRY(out.urls[std::string(name)], signed_url(call, target, expires));
  }
  service->uploads.add(id,
                       {.run = {.run_id = run_of_upload(id),
                                .owner = call.caller.owner,
                                .project_id = request.destination_project_id.value_or(""),
                                .base_model = request.base_model,
                                .lora = request.lora_config,
                                .created_at = service->now(),
                                .last_request_at = service->now()},
                        .expires = expires});
  auto opened = service->apart(open_upload(service, id));
  auto wait = async::until(std::move(opened));
  TINKER_CO_TRY(co_await wait);
  co_return out;
}

async::Task<> upload_file(Call call) {
  const auto& service = call.service;
  const std::string& name = call.args[1];
  const Upload* const upload = service->uploads.find(call.args[0]);
  if (upload == nullptr) co_return no_such("upload", call.args[0]);
  if (upload->is_finishing) co_return is_being_finished(call.args[0]);
  if (std::ranges::find(kUploadFiles, name) == kUploadFiles.end()) {
    co_return no_such("file of uploads", name);
  }
  const std::size_t most = service->options().limits.upload_bytes;
  if (call.request.content_length().value_or(0) > most) co_return too_large(name, most);
  auto opened =
      service->work([path = (upload->place.folder / name).string()]() -> Result<UploadFile> {
        TINKER_TRY(auto file, base::AtomicFile::create(path));
        return std::make_shared<base::AtomicFile>(std::move(file));
      });
  auto opening = async::until(std::move(opened));
  TINKER_CO_TRY(auto file, co_await opening);
  auto receiving = receive_file(call, file);
  auto received = co_await std::move(receiving);
  // Closing an incomplete file removes it, which takes too long for the loop.
  if (!received.ok()) {
    (void)service->work([file = std::move(file)]() -> Result<void> { return {}; });
  }
  co_return received;
}

async::Task<ExternalWeightsUploadFinishResponse> upload_finish(
    Call call, ExternalWeightsUploadFinishRequest request) {
  const auto service = call.service;
  const std::string& id = request.upload_id;
  const TinkerPath path = path_of_upload(id);
  Upload* const upload = service->uploads.find(id);
  if (upload == nullptr || upload->run.owner != call.caller.owner) {
    // A repeat, of whichever life of the server.
    auto search = service->own_checkpoint(path, call.caller.owner);
    if (const auto known = co_await std::move(search); !known.ok()) {
      co_return no_such("upload", id);
    }
    co_return ExternalWeightsUploadFinishResponse{.tinker_path = path.to_string()};
  }
  if (std::exchange(upload->is_finishing, true)) {
    co_return is_being_finished(id);
  }
  auto finished = service->apart(finish_once(service, id, *upload));
  auto wait = async::until(std::move(finished));
  TINKER_CO_TRY(co_await wait);
  co_return ExternalWeightsUploadFinishResponse{.tinker_path = path.to_string()};
}

}  // namespace tinker::server
