#include "server/link_files.h"

#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"

namespace tinker::server {

namespace fs = std::filesystem;

namespace {

Result<void> copy_to_disk(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat(
                     "copy ", from.string(), " to ", to.string(), ": ", error.message())};
  }
  const base::FileDescriptor file(::open(to.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.get()) != 0) return base::system_error("sync", to.string());
  return {};
}

Result<void> link_all(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directory(to, error);
  fs::directory_iterator it;
  if (!error) it = fs::directory_iterator(from, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const fs::path target = to / it->path().filename();
    // Whoever made a symbolic link may change what it leads to.
    std::error_code failed;
    const bool is_link = it->is_symlink(failed);
    if (!is_link) fs::create_hard_link(it->path(), target, failed);
    if (is_link || failed) {
      TINKER_TRY(copy_to_disk(it->path(), target));
    }
  }
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat(
                     "link ", from.string(), " to ", to.string(), ": ", error.message())};
  }
  TINKER_TRY(base::sync_folder(to.string()));
  return base::sync_folder(to.parent_path().string());
}

}  // namespace

Result<void> link_files(const fs::path& from, const fs::path& to) {
  auto linked = link_all(from, to);
  std::error_code ignored;
  if (!linked.ok()) fs::remove_all(to, ignored);
  return linked;
}

}  // namespace tinker::server
