#include "client/download.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "async/child_scope.h"
#include "async/task_group.h"
#include "base/logging.h"
#include "base/relative_path.h"
#include "base/strings.h"
#include "client/extract.h"
#include "client/weights.h"
#include "http/url.h"
#include "session/environment.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr int kMaxRestarts = 2;
constexpr int kLockTries = 20;
constexpr auto kLockPause = std::chrono::milliseconds(100);
constexpr const char* kArchiveName = "archive";

/// Runs `f()` on the workers.
template <typename F>
auto on_workers(const std::shared_ptr<Download>& download, F f) {
  return async::until(download->runtime()->offload(std::move(f)));
}

/// An object that changed, or came damaged: worth beginning again.
bool is_conflict(const Error& error) noexcept {
  return error.code == ErrorCode::conflict && error.http_status == 0;
}

/// The names as paths below the folder: safe ones, each of them once, none below another.
Result<std::map<std::string, std::string>> clean_names(const StringMap& urls) {
  std::map<std::string, std::string> out;
  for (const auto& [name, url] : urls) {
    TINKER_TRY(auto clean, base::clean_relative_path(name));
    if (!out.emplace(std::move(clean), url).second) {
      return Error{.code = ErrorCode::invalid_response,
                   .message = base::concat("the checkpoint has ", base::quoted(name), " twice")};
    }
  }
  for (const auto& [name, url] : out) {
    for (auto slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      if (!out.contains(name.substr(0, slash))) continue;
      return Error{
          .code = ErrorCode::invalid_response,
          .message = base::concat("the checkpoint has ", base::quoted(name), " below a file")};
    }
  }
  return out;
}

/// The URLs in full. None leads to another Unix socket than the API's.
Result<void> resolve_urls(const session::HolderOptions& options,
                          std::map<std::string, std::string>& urls) {
  TINKER_TRY(const auto base, session::resolve_base_url(options.base_url, options.environment));
  TINKER_TRY(const auto api, http::Url::parse(base));
  for (auto& [name, url] : urls) {
    const auto full = api.resolve(url);
    if (!full.ok()) {
      return Error{.code = ErrorCode::invalid_response,
                   .message = "what the server gives as the URL cannot be used as an address"};
    }
    url = full->to_string();
  }
  return {};
}

Task<StringMap> ask_external_urls(RestState::Source source, DownloadRequest request) {
  RestCall rest = {.method = "get_external_weights_urls",
                   .call = {.method = http::Method::get, .trace = request.trace}};
  address(rest.call,
          request.path.training_run_id,
          request.path.checkpoint_id(),
          "/external_weights_urls");
  auto asking = run_rest<ExternalWeightsUrlsResponse>(std::move(source), std::move(rest));
  TINKER_CO_TRY(auto answer, co_await std::move(asking));
  co_return std::move(answer.urls);
}

Task<StringMap> ask_archive_url(RestState::Source source, DownloadRequest request) {
  auto asking = find_archive(std::move(source), request.path, request.trace);
  auto answer = co_await std::move(asking);
  if (answer.ok()) co_return StringMap{{kArchiveName, std::move(answer->url)}};
  Error error = std::move(answer).error();
  if (error.code == ErrorCode::not_found) {
    error.message +=
        "; servers since 0.36 make no archives, save_weights_external a checkpoint "
        "that can be downloaded";
  }
  co_return error.with_context(base::concat("find the archive of ", request.path.to_string()));
}

/// Waits a little for whoever holds the folder: a download that was cancelled lets go of it soon.
Task<> open_folder(std::shared_ptr<Download> download, std::string target) {
  for (int tries = 1;; ++tries) {
    auto opening = on_workers(download, [target, name = download->request.path.to_string()] {
      return PartialFolder::open(target, name);
    });
    auto folder = co_await opening;
    if (folder.ok()) {
      download->folder = *std::move(folder);
      co_return Result<void>();
    }
    if (!folder.error().retry.retryable || tries == kLockTries) co_return folder.error();
    auto pause = async::sleep_for(kLockPause);
    TINKER_CO_TRY(co_await pause);
  }
}

/// A part is on disk; afterwards it need not be fetched again.
Task<> finish_part(std::shared_ptr<Download> download,
                   std::shared_ptr<Object> object,
                   std::size_t part) {
  auto finishing =
      on_workers(download, [file = object->file, part] { return file->finish_part(part); });
  const auto finished = co_await finishing;
  if (finished.ok()) {
    object->parts->done[part] = true;
  } else {
    download->progress.remove(object->parts->bytes_of(part));
  }
  co_return finished;
}

Task<> fetch_part(std::shared_ptr<Download> download,
                  std::shared_ptr<Object> object,
                  std::size_t part,
                  async::Semaphore::Permit /*connection*/) {
  const Piece piece = {.offset = object->parts->begin(part),
                       .bytes = object->parts->bytes_of(part)};
  auto fetching = fetch_piece(download, object, piece);
  TINKER_CO_TRY(co_await std::move(fetching));
  auto finishing = finish_part(download, object, part);
  co_return co_await std::move(finishing);
}

/// The parts that are not there yet, side by side.
Task<> fetch_parts(std::shared_ptr<Download> download, std::shared_ptr<Object> object) {
  auto ask = async::this_context();
  async::TaskGroup group(co_await ask);
  Result<void> admitted;
  for (std::size_t part = 0; part < object->parts->done.size() && !group.has_failed(); ++part) {
    if (object->parts->done[part]) continue;
    auto turn = download->connections.acquire();
    auto permit = co_await turn;
    if (!permit.ok()) {
      admitted = permit.error();
      break;
    }
    group.start(fetch_part(download, object, part, *std::move(permit)));
  }
  auto all = group.join();
  TINKER_CO_TRY(co_await all);
  co_return admitted;
}

/// The first request for an object tells what it is; it asks for what is needed anyway.
Piece first_piece(const Object& object, std::uint64_t part_bytes) {
  if (!object.parts) return {.bytes = part_bytes};
  const auto& done = object.parts->done;
  const auto missing = static_cast<std::size_t>(std::ranges::find(done, false) - done.begin());
  if (missing == done.size()) return {.bytes = 1, .is_look = true};  // is it still the same?
  return {.offset = object.parts->begin(missing), .bytes = object.parts->bytes_of(missing)};
}

/// Goes on with an object of which parts are there, if it is still the same.
Task<ObjectHead> resume_object(std::shared_ptr<Download> download, std::shared_ptr<Object> object) {
  const auto reused = object->parts->bytes_done();
  download->progress.add(object->name, reused);
  const Piece first = first_piece(*object, 0);
  auto fetching = fetch_piece(download, object, first);
  auto head = co_await std::move(fetching);
  if (!head.ok()) {
    download->progress.remove(reused);
    co_return head;
  }
  object->bytes_reused = reused;
  const auto part = static_cast<std::size_t>(first.offset / object->parts->part_bytes);
  if (first.is_look) co_return head;
  auto finishing = finish_part(download, object, part);
  TINKER_CO_TRY(co_await std::move(finishing));
  co_return head;
}

/// Meets an object: afterwards it is complete, or `parts` says what is missing.
Task<ObjectHead> begin_object(std::shared_ptr<Download> download, std::shared_ptr<Object> object) {
  const std::uint64_t part_bytes = download->request.options.part_bytes;
  auto fetching = fetch_piece(download, object, first_piece(*object, part_bytes));
  TINKER_CO_TRY(const auto head, co_await std::move(fetching));
  if (head.is_range && !head.etag.empty()) {
    const auto parts = PartState::of(head.size, part_bytes, head.etag);
    auto beginning =
        on_workers(download, [file = object->file, parts] { return file->begin(parts); });
    TINKER_CO_TRY(co_await beginning);
    object->parts = parts;
    auto finishing = finish_part(download, object, 0);
    TINKER_CO_TRY(co_await std::move(finishing));
  } else if (!head.is_whole) {
    // Nothing tells whether two parts are of the same object: it has to come in one piece.
    download->progress.remove(part_bytes);
    auto whole = fetch_piece(download, object, Piece{.is_all = true});
    co_return co_await std::move(whole);
  }
  co_return head;
}

/// All of an object, of the right size, and of the right checksum where there is one.
Task<DownloadedFile> fetch_object(std::shared_ptr<Download> download,
                                  std::shared_ptr<Object> object) {
  std::optional<async::Semaphore::Permit> connection;
  auto turn = download->connections.acquire();
  TINKER_CO_TRY(connection, co_await turn);
  auto meeting = object->parts ? resume_object(download, object) : begin_object(download, object);
  TINKER_CO_TRY(const auto head, co_await std::move(meeting));
  connection.reset();
  download->progress.add_size(head.size);
  Result<void> complete;
  if (object->parts) {
    auto fetching = fetch_parts(download, object);
    complete = co_await std::move(fetching);
  }
  if (complete.ok()) {
    auto checking =
        on_workers(download, [file = object->file, head, stop = download->stop]() -> Result<void> {
          TINKER_TRY(file->finish(head.size));
          if (head.checksum.kind == Checksum::none) return {};
          return verify_checksum(file->path(), head.checksum, *stop);
        });
    complete = co_await checking;
  }
  if (!complete.ok()) {
    download->progress.remove_size(head.size);
    const auto done = object->parts ? object->parts->bytes_done() : head.size;
    download->progress.remove(done);
    co_return complete.error();
  }
  co_return DownloadedFile{.name = object->name, .size = head.size, .checksum = head.checksum.kind};
}

/// Begins again when the object is not what it was, or not what its checksum says.
Task<> fetch_file(std::shared_ptr<Download> download, DownloadedFile* out) {
  auto turn = download->open_files.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  for (int restarts = 0;; ++restarts) {
    auto opening = on_workers(download, [folder = download->folder, name = out->name] {
      return folder->open_object(name);
    });
    TINKER_CO_TRY(auto opened, co_await opening);
    const auto object = std::make_shared<Object>(Object{
        .name = out->name, .file = std::move(opened.file), .parts = std::move(opened.parts)});
    auto fetching = fetch_object(download, object);
    auto fetched = co_await std::move(fetching);
    if (fetched.ok()) {
      *out = *std::move(fetched);
      download->bytes_reused += object->bytes_reused;
      co_return Result<void>();
    }
    Error error = std::move(fetched).error();
    if (!is_conflict(error)) co_return error;
    auto forgetting = on_workers(download, [file = object->file] { return file->forget(); });
    TINKER_CO_TRY(co_await forgetting);
    if (restarts == kMaxRestarts) {
      error.code = ErrorCode::invalid_response;
      co_return std::move(error).with_context(object->name);
    }
    TINKER_LOG(download->runtime()->logger(),
               warn,
               "download of ",
               object->name,
               " begins again: ",
               error.message);
  }
}

/// All objects of the checkpoint, by name.
Task<std::vector<DownloadedFile>> fetch_files(std::shared_ptr<Download> download) {
  std::vector<DownloadedFile> files;
  for (const auto& [name, url] : download->urls) files.push_back({.name = name});
  download->progress.expect(files.size());
  auto ask = async::this_context();
  async::TaskGroup group(co_await ask);
  for (auto& file : files) group.start(fetch_file(download, &file));
  auto all = group.join();
  TINKER_CO_TRY(co_await all);
  co_return files;
}

Task<std::vector<DownloadedFile>> unpack(std::shared_ptr<Download> download,
                                         DownloadedFile archive,
                                         std::string* folder) {
  auto unpacking = on_workers(
      download,
      [from = download->folder,
       limit = download->request.options.max_archive_bytes,
       stop = download->stop]() -> Result<std::pair<std::string, std::vector<DownloadedFile>>> {
        TINKER_TRY(auto into, from->make_files());
        auto files =
            extract_archive(base::concat(from->objects(), "/", kArchiveName), into, limit, *stop);
        if (files.ok()) return std::pair(std::move(into), *std::move(files));
        // The next call should not find it complete.
        if (files.error().code == ErrorCode::invalid_response) {
          TINKER_TRY(from->forget(kArchiveName));
        }
        return std::move(files).error();
      });
  TINKER_CO_TRY(auto unpacked, co_await unpacking);
  *folder = std::move(unpacked.first);
  for (auto& file : unpacked.second) file.checksum = archive.checksum;
  std::ranges::sort(unpacked.second, {}, &DownloadedFile::name);
  co_return std::move(unpacked.second);
}

Task<DownloadedCheckpoint> run_download(std::shared_ptr<Download> download) {
  const DownloadOptions& options = download->request.options;
  auto checking =
      on_workers(download, [folder = download->request.folder, overwrite = options.overwrite] {
        return check_target(folder, overwrite);
      });
  TINKER_CO_TRY(const auto target, co_await checking);
  auto opening = rest_holder(download->source);
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  // This kind has a channel per request, which no other shares.
  download->pool = std::make_shared<api::ChannelPool>(
      api::PoolKind::train, holder->core()->api->pool(api::PoolKind::train).transport());
  auto finding = find_urls(download);
  TINKER_CO_TRY(co_await std::move(finding));
  auto locking = open_folder(download, target);
  TINKER_CO_TRY(co_await std::move(locking));
  auto fetching = fetch_files(download);
  TINKER_CO_TRY(auto files, co_await std::move(fetching));
  std::string folder = download->folder->objects();
  if (download->is_archive()) {
    auto unpacking = unpack(download, files.front(), &folder);
    TINKER_CO_TRY(files, co_await std::move(unpacking));
  }
  auto telling = async::until(download->progress.finish());
  TINKER_CO_TRY(co_await telling);
  auto publishing =
      on_workers(download, [from = download->folder, folder, overwrite = options.overwrite] {
        return from->publish(folder, overwrite);
      });
  TINKER_CO_TRY(co_await publishing);
  co_return DownloadedCheckpoint{
      .folder = target, .files = std::move(files), .bytes_reused = download->bytes_reused};
}

}  // namespace

Result<void> check_download(const DownloadOptions& options) {
  if (options.connections < 1 || options.connections > 64) {
    return Error::invalid_argument(
        base::concat("connections: expected 1 to 64, found ", options.connections));
  }
  if (options.part_bytes < 1024) {
    return Error::invalid_argument(
        base::concat("part_bytes: expected at least 1024, found ", options.part_bytes));
  }
  return {};
}

Task<> find_urls(std::shared_ptr<Download> download) {
  auto asking = download->is_archive() ? ask_archive_url(download->source, download->request)
                                       : ask_external_urls(download->source, download->request);
  TINKER_CO_TRY(const auto answer, co_await std::move(asking));
  TINKER_CO_TRY(auto urls, clean_names(answer));
  if (urls.empty()) {
    co_return Error{.code = ErrorCode::not_found,
                    .message = base::concat(download->request.path.to_string(), " has no files")};
  }
  TINKER_CO_TRY(resolve_urls(download->source.options, urls));
  download->urls = std::move(urls);
  ++download->urls_generation;
  co_return Result<void>();
}

Task<DownloadedCheckpoint> download_checkpoint(RestState::Source source, DownloadRequest request) {
  const auto download = std::make_shared<Download>(std::move(source), std::move(request));
  auto running = async::in_child_scope(download->scope, run_download(download));
  auto result = co_await std::move(running);
  *download->stop = true;
  co_return result;
}

}  // namespace tinker::client
