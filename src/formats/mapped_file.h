#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "tinker/result.h"

namespace tinker::formats {

/// A file as memory: what is touched is read, the rest stays on disk. The file must not be cut
/// short while it is mapped.
///
/// Immutable.
class MappedFile {
 public:
  /// Fails with `invalid_argument`, and names the file.
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  /// Valid as long as this is.
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  explicit MappedFile(std::string_view bytes) noexcept : bytes_(bytes) {}

  std::string_view bytes_;  // with no address where the file is empty
};

}  // namespace tinker::formats
