#include "base/files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"

namespace tinker::base {

Error system_error(std::string_view what, std::string_view path) {
  return {.code = ErrorCode::io_error,
          .message = concat(what, " ", path, ": ", std::generic_category().message(errno))};
}

Result<void> make_folders_above(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (!error) return {};
  return Error{.code = ErrorCode::io_error,
               .message = concat("make the folders above ", path, ": ", error.message())};
}

Result<void> sync_folder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot; then there is nothing to be done.
  if (!folder.is_open() || (::fsync(folder.get()) != 0 && errno != EINVAL)) {
    return system_error("sync", path);
  }
  return {};
}

Result<void> swap_names(const std::string& from, const std::string& to) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return system_error("replace", to);
#endif
  return swap_names_in_steps(from, to);
}

Result<void> swap_names_in_steps(const std::string& from, const std::string& to) {
  const std::string aside = from + ".old";
  TINKER_TRY(move_to_new_name(to, aside));
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    auto failed = system_error("replace", to);
    if (std::rename(aside.c_str(), to.c_str()) == 0) return failed;
    failed.message += concat("; the old one is at ", aside);
    return failed;
  }
  if (std::rename(aside.c_str(), from.c_str()) != 0) return system_error("make", from);
  return {};
}

Result<void> move_to_new_name(const std::string& from, const std::string& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return system_error("make", to);
#endif
  struct stat info = {};
  if (::lstat(to.c_str(), &info) == 0)
    errno = EEXIST;
  else if (std::rename(from.c_str(), to.c_str()) == 0)
    return {};
  return system_error("make", to);
}

Result<std::string_view> read_some(const FileDescriptor& file,
                                   std::string& buffer,
                                   std::string_view path) {
  while (true) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n >= 0) return std::string_view(buffer).substr(0, static_cast<std::size_t>(n));
    if (errno != EINTR) return system_error("read", path);
  }
}

Result<void> write_all(const FileDescriptor& file, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_at(const FileDescriptor& file,
                      std::uint64_t offset,
                      std::string_view bytes,
                      std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("write", path);
    offset += static_cast<std::uint64_t>(n);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace tinker::base
