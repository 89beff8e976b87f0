#include "server/data_folder.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/strings.h"

namespace tinker::server {
namespace {

namespace fs = std::filesystem;
using base::concat;
using base::FileDescriptor;
using base::system_error;

constexpr std::size_t kSecretBytes = 32;

Error file_error(std::string_view what, const fs::path& path, const std::error_code& reason) {
  return {.code = ErrorCode::io_error,
          .message = concat(what, " ", path.string(), ": ", reason.message())};
}

/// Makes the folder, for its owner alone, if it is not there.
Result<fs::path> make_folder(const fs::path& path) {
  std::error_code error;
  auto folder = fs::absolute(path, error).lexically_normal();
  if (error) return file_error("find", path, error);
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (error) return file_error("make", folder, error);
  if (!fs::is_directory(folder, error)) {
    return file_error("open", folder, std::make_error_code(std::errc::not_a_directory));
  }
  return folder;
}

/// Makes the file if it is not there. Others can read it at no moment.
Result<void> make_private_file(const fs::path& path) {
  constexpr mode_t kMode = 0600;
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!file.is_open()) return system_error("open", path.string());
  if (::fchmod(file.get(), kMode) != 0) return system_error("restrict", path.string());
  return {};
}

/// All of a short file, or nothing if it does not exist.
Result<std::optional<std::string>> read_short_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return std::optional<std::string>();
  if (!file.is_open()) return system_error("open", path);
  std::string buffer(kSecretBytes + 1, '\0');
  TINKER_TRY(const auto read, base::read_some(file, buffer, path));
  return std::optional<std::string>(read);
}

/// A file that others can never read, not even before it has its name.
Result<void> write_private_file(const std::string& path, std::string_view bytes) {
  constexpr mode_t kMode = 0600;
  const auto written = path + ".incomplete";
  FileDescriptor file(::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file.is_open()) return system_error("make", written);
  TINKER_TRY(base::write_all(file, bytes, written));
  if (::fsync(file.get()) != 0) return system_error("sync", written);
  if (std::rename(written.c_str(), path.c_str()) != 0) return system_error("make", path);
  return base::sync_folder(fs::path(path).parent_path().string());
}

}  // namespace

Result<void> make_private_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) return file_error("make", path, error);
  fs::permissions(path, fs::perms::owner_all, error);
  if (error) return file_error("restrict", path, error);
  return {};
}

Result<DataFolder> DataFolder::open(const fs::path& path) {
  std::shared_ptr<const ScratchFolder> scratch;
  if (path.empty()) {
    TINKER_TRY(scratch, ScratchFolder::create("tinker"));
  }
  TINKER_TRY(auto folder, scratch ? Result<fs::path>(scratch->path()) : make_folder(path));
  DataFolder data(std::move(folder), std::move(scratch));
  TINKER_TRY(data.take_lock());
  TINKER_TRY(data.read_or_make_secret());
  TINKER_TRY(data.restrict());
  TINKER_TRY(base::sync_folder(data.path_.string()));
  return data;
}

// The folder itself may be one that others share: what is private in it protects itself. SQLite
// gives the files beside the catalogue the permissions of the catalogue.
Result<void> DataFolder::restrict() const {
  TINKER_TRY(make_private_folder(checkpoints()));
  if (fs::exists(journals())) {
    TINKER_TRY(make_private_folder(journals()));
  }
  TINKER_TRY(make_private_file(catalogue()));
  for (const auto* const beside : {"-wal", "-shm"}) {
    const fs::path file = catalogue().string() + beside;
    if (fs::exists(file)) {
      TINKER_TRY(make_private_file(file));
    }
  }
  return {};
}

Result<void> DataFolder::take_lock() {
  constexpr mode_t kMode = 0600;
  const auto file = (path_ / "lock").string();
  lock_ = FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!lock_.is_open()) return system_error("open", file);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error("lock", file);
    std::string buffer(32, '\0');
    TINKER_TRY(auto pid, base::read_some(lock_, buffer, file));
    pid = pid.substr(0, pid.find('\n'));
    return Error{.code = ErrorCode::invalid_argument,
                 .message = concat("data folder ",
                                   path_.string(),
                                   " is used by the process ",
                                   pid.empty() ? "that has just started" : pid)};
  }
  if (::ftruncate(lock_.get(), 0) != 0) return system_error("write", file);
  return base::write_at(lock_, 0, concat(::getpid(), "\n"), file);
}

Result<void> DataFolder::read_or_make_secret() {
  const auto file = (path_ / "secret").string();
  TINKER_TRY(auto found, read_short_file(file));
  if (found && found->size() != kSecretBytes) {
    return Error{.code = ErrorCode::io_error,
                 .message = concat("expected a file of ", kSecretBytes, " bytes: ", file)};
  }
  if (found) {
    secret_ = *std::move(found);
    return {};
  }
  std::array<char, kSecretBytes> bytes = {};
  if (::getentropy(bytes.data(), bytes.size()) != 0) return system_error("fill", file);
  secret_.assign(bytes.data(), bytes.size());
  return write_private_file(file, secret_);
}

void DataFolder::remove_checkpoint(std::string_view name) const noexcept {
  if (name.empty()) return;  // that would be the folder of all
  std::error_code ignored;
  fs::remove_all(checkpoints() / name, ignored);
}

Result<std::vector<std::string>> DataFolder::checkpoint_folders() const {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(checkpoints(), error);
  while (!error && entry != fs::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return file_error("read", checkpoints(), error);
  return names;
}

Result<std::int64_t> size_of_folder(const fs::path& folder) {
  std::uintmax_t size = 0;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  while (!error && entry != fs::recursive_directory_iterator()) {
    const auto status = entry->symlink_status(error);
    if (!error && fs::is_regular_file(status)) size += entry->file_size(error);
    if (!error) entry.increment(error);
  }
  if (error) return file_error("measure", folder, error);
  return static_cast<std::int64_t>(size);
}

}  // namespace tinker::server
