#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "tinker/result.h"

namespace tinker::server {

/// The folder that a server keeps its data in:
///
///     lock           held by the process that has it open; says its id
///     secret         32 random bytes
///     catalogue.db   what `Store` knows
///     checkpoints/   a folder for each checkpoint
///
/// Thread-compatible.
class DataFolder {
 public:
  /// Opens or makes it. An empty path makes a temporary one, removed with this object. Fails with
  /// `invalid_argument` while somebody else has it open.
  static Result<DataFolder> open(const std::filesystem::path& path);
  DataFolder(DataFolder&& other) noexcept
      : path_(std::move(other.path_)),
        is_temporary_(std::exchange(other.is_temporary_, false)),
        lock_(std::move(other.lock_)),
        secret_(std::move(other.secret_)) {}
  DataFolder& operator=(DataFolder&&) = delete;
  ~DataFolder();

  /// Removes a checkpoint's folder; does nothing for an empty name. What cannot be removed is an
  /// orphan, for the next open.
  void remove_checkpoint(std::string_view name) const noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const std::string& secret() const noexcept { return secret_; }
  [[nodiscard]] std::filesystem::path catalogue() const { return path_ / "catalogue.db"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// The names of all that lies in `checkpoints()`.
  [[nodiscard]] Result<std::vector<std::string>> checkpoint_folders() const;

 private:
  DataFolder(std::filesystem::path path, bool is_temporary)
      : path_(std::move(path)), is_temporary_(is_temporary) {}

  Result<void> take_lock();
  Result<void> read_or_make_secret();

  std::filesystem::path path_;
  bool is_temporary_;
  base::FileDescriptor lock_ = {};
  std::string secret_ = {};
};

/// Bytes in all regular files below `folder`.
Result<std::int64_t> size_of_folder(const std::filesystem::path& folder);

}  // namespace tinker::server
