#include "server/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/strings.h"

namespace tinker::server {

namespace fs = std::filesystem;
using base::FileDescriptor;

namespace {

constexpr const char* kLock = "temporary.lock";
constexpr std::string_view kRandom = "XXXXXX";  // what mkdtemp replaces

bool is_scratch_name(std::string_view name, std::string_view prefix) {
  return name.size() == prefix.size() + 1 + kRandom.size() && name.starts_with(prefix) &&
         name[prefix.size()] == '-';
}

/// The lock of a folder of this user's whose process is gone; nothing for any other folder. The
/// folder is given by its name alone, so nothing that is a link is followed.
std::optional<FileDescriptor> lock_of_leftover(const fs::path& folder) {
  const FileDescriptor opened(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about = {};
  if (!opened.is_open() || ::fstat(opened.get(), &about) != 0 || about.st_uid != ::geteuid()) {
    return std::nullopt;
  }
  FileDescriptor lock(::openat(opened.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

/// What cannot be removed stays for another time.
void remove_leftovers(const fs::path& parent, std::string_view prefix) {
  std::error_code error;
  fs::directory_iterator entry(parent, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!is_scratch_name(entry->path().filename().string(), prefix)) continue;
    std::error_code ignored;
    if (const auto lock = lock_of_leftover(entry->path())) fs::remove_all(entry->path(), ignored);
  }
}

/// The lock of a folder that was just made; nothing if another process took it for a leftover in
/// between.
Result<std::optional<FileDescriptor>> lock_new(const fs::path& folder) {
  constexpr mode_t kMode = 0600;
  const std::string file = folder / kLock;
  FileDescriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (!lock.is_open()) return base::system_error("make", file);
  struct stat about = {};
  const bool is_held = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_held && errno != EWOULDBLOCK) return base::system_error("lock", file);
  if (!is_held || ::fstat(lock.get(), &about) != 0 || about.st_nlink == 0) {
    return std::optional<FileDescriptor>();
  }
  return std::optional(std::move(lock));
}

}  // namespace

Result<std::shared_ptr<const ScratchFolder>> ScratchFolder::create(std::string_view prefix) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("no folder for temporary files: ", error.message())};
  }
  remove_leftovers(parent, prefix);
  while (true) {
    std::string name = (parent / base::concat(prefix, "-", kRandom)).string();
    if (::mkdtemp(name.data()) == nullptr) return base::system_error("make", name);
    TINKER_TRY(auto lock, lock_new(name));
    if (!lock) continue;
    return std::shared_ptr<const ScratchFolder>(
        new ScratchFolder(fs::canonical(name, error), *std::move(lock)));
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tinker::server
