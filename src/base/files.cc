#include "base/files.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

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
