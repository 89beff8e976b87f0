#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/tar_writer.h"
#include "http/http_date.h"
#include "server/checkpoint_path.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/service.h"
#include "server/signed_url.h"

namespace tinker::server {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10U;

struct StoredFile {
  std::string name = {};
  std::uint64_t size = 0;
};

Result<std::vector<StoredFile>> files_of(const std::filesystem::path& folder) {
  std::vector<StoredFile> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error) && !error)
      out.push_back({.name = it->path().filename().string(), .size = it->file_size(error)});
  }
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("read ", folder.string(), ": ", error.message())};
  }
  std::ranges::sort(out, {}, &StoredFile::name);
  return out;
}

std::string download_path(const TinkerPath& path, std::string_view what) {
  return base::concat(
      "/api/v1/download/", path.training_run_id, "/", path.checkpoint_id(), "/", what);
}

/// The checkpoint of a signed link. Whoever has the link may read it.
async::Task<CheckpointRecord> linked_checkpoint(Call call) {
  TINKER_CO_TRY(const auto path, path_of(call));
  auto stored =
      call.service->disk.run([path](Store& store) { return store.find_checkpoint(path); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto record, co_await wait);
  if (!record) co_return no_such("checkpoint", path.to_string());
  co_return *std::move(record);
}

struct OpenFile {
  std::shared_ptr<base::FileDescriptor> file;
  std::uint64_t size = 0;
};

Result<OpenFile> open_file(const std::string& path) {
  OpenFile out = {.file = std::make_shared<base::FileDescriptor>(
                      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW))};
  struct stat info = {};
  if (!out.file->is_open() || ::fstat(out.file->get(), &info) != 0)
    return base::system_error("open", path);
  out.size = static_cast<std::uint64_t>(info.st_size);
  return out;
}

/// Sends all of an open file. An answer that cannot be completed is aborted, so that nobody takes a
/// part for the whole.
async::Task<> send_content(Call call, OpenFile open, std::string path) {
  std::uint64_t left = open.size;
  while (left > 0) {
    auto reading = call.service->work([file = open.file, path]() -> Result<std::string> {
      std::string buffer(kPiece, '\0');
      TINKER_TRY(const auto piece, base::read_some(*file, buffer, path));
      buffer.resize(piece.size());
      return buffer;
    });
    auto wait = async::until(std::move(reading));
    TINKER_CO_TRY(std::string piece, co_await wait);
    if (piece.empty())
      co_return Error{.code = ErrorCode::io_error,
                      .message = base::concat(path, " became shorter")};
    piece.resize(std::min<std::uint64_t>(piece.size(), left));
    left -= piece.size();
    auto written = call.writer.write(piece);
    TINKER_CO_TRY(co_await written);
  }
  co_return Result<void>();
}

async::Task<> send_archive(Call call, std::filesystem::path folder, std::vector<StoredFile> files) {
  for (const auto& file : files) {
    const std::string path = (folder / file.name).string();
    TINKER_CO_TRY(auto open, open_file(path));
    open.size = file.size;
    TINKER_CO_TRY(const std::string header, formats::tar_file_header(file.name, file.size));
    auto head = call.writer.write(header);
    TINKER_CO_TRY(co_await head);
    auto content = send_content(call, std::move(open), path);
    TINKER_CO_TRY(co_await std::move(content));
    const std::string padding = formats::tar_padding(file.size);
    if (padding.empty()) continue;
    auto tail = call.writer.write(padding);
    TINKER_CO_TRY(co_await tail);
  }
  const std::string end = formats::tar_end();
  auto last = call.writer.write(end);
  TINKER_CO_TRY(co_await last);
  co_return Result<void>();
}

/// Streams what `task` sends after `head`.
async::Task<Reply> stream(Call call,
                          http::ServerResponse head,
                          std::uint64_t length,
                          async::Task<> task) {
  call.writer.begin(std::move(head), length);
  auto sent = co_await std::move(task);
  if (sent.ok()) {
    call.writer.end();
  } else {
    call.writer.abort({});
  }
  co_return Reply{.is_streamed = true};
}

}  // namespace

Result<std::string> signed_url(const Call& call, std::string_view target, Instant expires) {
  TINKER_TRY(const std::string link, call.service->access.sign_link(target, expires));
  const std::string& front = call.service->options().public_url;
  if (!front.empty()) return front + link;
  const auto host = call.header("host");
  if (host.empty()) return bad_request("Host: expected the name that links begin with");
  const std::string& socket = call.service->options().unix_url;
  if (!socket.empty() && host == "localhost") return socket + link;  // no proxy is in front of it
  return base::concat(call.request.peer().is_tls ? "https://" : "http://", host, link);
}

async::Task<Reply> archive_link(Call call) {
  TINKER_CO_TRY(const auto path, path_of(call));
  auto search = call.service->readable_checkpoint(path.to_string(), call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  if (call.service->imported.find(path) != nullptr) {
    co_return bad_request(
        base::concat(path.to_string(), " was imported: it can be sampled from, not downloaded"));
  }
  const Instant expires = call.service->now() + call.service->options().limits.link_time;
  TINKER_CO_TRY(const std::string link,
                signed_url(call, download_path(path, "archive.tar"), expires));
  Reply out = {.status = 302};
  out.headers.add("location", link);
  out.headers.add("expires",
                  http::format_http_date(std::chrono::floor<std::chrono::seconds>(expires)));
  co_return out;
}

async::Task<Reply> archive(Call call) {
  auto search = linked_checkpoint(call);
  TINKER_CO_TRY(const auto record, co_await std::move(search));
  const auto folder = call.service->disk.store().folder_of(record);
  TINKER_CO_TRY(auto files, files_of(folder));
  std::uint64_t length = formats::tar_end().size();
  for (const auto& file : files) {
    TINKER_CO_TRY(const std::string header, formats::tar_file_header(file.name, file.size));
    length += header.size() + file.size + formats::tar_padding(file.size).size();
  }
  http::ServerResponse head = {.headers = {{.name = "content-type", .value = "application/x-tar"}}};
  auto sending =
      stream(call, std::move(head), length, send_archive(call, folder, std::move(files)));
  co_return co_await std::move(sending);
}

async::Task<ExternalWeightsUrlsResponse> external_links(Call call) {
  TINKER_CO_TRY(const auto path, path_of(call));
  if (path.kind != CheckpointType::external) {
    co_return bad_request(base::concat(path.to_string(), ": expected external_weights"));
  }
  auto search = call.service->own_checkpoint(path, call.caller.owner);
  TINKER_CO_TRY(const auto record, co_await std::move(search));
  TINKER_CO_TRY(const auto files, files_of(call.service->disk.store().folder_of(record)));
  const Instant expires = call.service->now() + call.service->options().limits.link_time;
  ExternalWeightsUrlsResponse out = {
      .expires = Instant(std::chrono::floor<std::chrono::seconds>(expires))};
  for (const auto& file : files) {
    const auto target = download_path(path, base::concat("files/", file.name));
    TINKER_CO_TRY(out.urls[file.name], signed_url(call, target, expires));
  }
  co_return out;
}

async::Task<Reply> external_file(Call call) {
  auto search = linked_checkpoint(call);
  TINKER_CO_TRY(const auto record, co_await std::move(search));
  const auto folder = call.service->disk.store().folder_of(record);
  TINKER_CO_TRY(const auto files, files_of(folder));
  const std::string& name = call.args[3];
  // Only what is in the folder: the name never becomes part of a path before that.
  if (std::ranges::find(files, name, &StoredFile::name) == files.end())
    co_return no_such("file", name);
  const std::string path = (folder / name).string();
  TINKER_CO_TRY(auto open, open_file(path));
  const std::uint64_t length = open.size;
  http::ServerResponse head = {
      .headers = {{.name = "content-type", .value = "application/octet-stream"}}};
  auto sending = stream(call, std::move(head), length, send_content(call, std::move(open), path));
  co_return co_await std::move(sending);
}

}  // namespace tinker::server
