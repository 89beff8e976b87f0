#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "tinker/result.h"

namespace tinker::server {

/// A new folder below the system's folder for temporary files, removed with all that is in it when
/// the last owner goes.
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
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace tinker::server
