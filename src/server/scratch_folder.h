#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "base/file_descriptor.h"
#include "tinker/result.h"

namespace tinker::server {

/// A new folder below the system's folder for temporary files, removed with all that is in it when
/// the last owner goes. A process that is killed leaves its folders; the next one that makes a
/// folder of the same prefix removes them. Their lock, the file `temporary.lock`, tells which.
///
/// Immutable.
class ScratchFolder {
 public:
  /// Its name begins with `prefix`. Fails with `io_error`.
  static Result<std::shared_ptr<const ScratchFolder>> create(std::string_view prefix);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  ScratchFolder(std::filesystem::path path, base::FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  base::FileDescriptor lock_;
};

}  // namespace tinker::server
