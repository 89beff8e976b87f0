#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tinker/result.h"

namespace tinker::base {

/// A folder that has its name only once it is complete: it is filled beside it, and removed again
/// unless `commit` puts it there, on the disk, in the place of what had the name before.
///
/// Thread-compatible.
class AtomicFolder {
 public:
  /// Also makes the folders above it. Fails with `invalid_argument` for a path that cannot have a
  /// neighbour.
  static Result<AtomicFolder> create(const std::string& path);
  AtomicFolder(AtomicFolder&& other) noexcept
      : path_(std::move(other.path_)), written_(std::exchange(other.written_, {})) {}
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  /// Where it is until then. Whoever makes files there brings them to the disk; `write` does.
  [[nodiscard]] const std::string& written() const noexcept { return written_; }
  [[nodiscard]] Result<void> write(std::string_view name, std::string_view bytes) const;
  Result<void> commit();

 private:
  AtomicFolder(std::string path, std::string written)
      : path_(std::move(path)), written_(std::move(written)) {}

  std::string path_;
  std::string written_;  // empty when it is committed or moved from
};

}  // namespace tinker::base
