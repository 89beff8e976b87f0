#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "server/scratch_folder.h"
#include "tinker/result.h"

namespace tinker::server {

/// The folder that a server keeps its data in:
///
///     lock           held by the process that has it open; says its id
///     secret         32 random bytes
///     catalogue.db   what `Store` knows
///     checkpoints/   a folder for each checkpoint
///     journal/       the journals of a durable server
///
/// Nobody but its owner can read these, whoever may enter the folder itself.
///
/// Thread-compatible.
class DataFolder {
 public:
  /// Opens or makes it. An empty path makes a temporary one, removed with this object. Fails with
  /// `invalid_argument` while somebody else has it open.
  static Result<DataFolder> open(const std::filesystem::path& path);
  DataFolder(DataFolder&&) = default;
  DataFolder& operator=(DataFolder&&) = delete;

  /// Removes a checkpoint's folder; does nothing for an empty name. What cannot be removed is an
  /// orphan, for the next open.
  void remove_checkpoint(std::string_view name) const noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const std::string& secret() const noexcept { return secret_; }
  [[nodiscard]] std::filesystem::path catalogue() const { return path_ / "catalogue.db"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  [[nodiscard]] std::filesystem::path journals() const { return path_ / "journal"; }
  /// The names of all that lies in `checkpoints()`.
  [[nodiscard]] Result<std::vector<std::string>> checkpoint_folders() const;

 private:
  DataFolder(std::filesystem::path path, std::shared_ptr<const ScratchFolder> scratch)
      : path_(std::move(path)), scratch_(std::move(scratch)) {}

  Result<void> take_lock();
  [[nodiscard]] Result<void> restrict() const;
  Result<void> read_or_make_secret();

  std::filesystem::path path_;
  std::shared_ptr<const ScratchFolder> scratch_;  // null: it stays
  base::FileDescriptor lock_ = {};
  std::string secret_ = {};
};

/// Makes the folder if it is not there, and lets nobody but its owner into it.
Result<void> make_private_folder(const std::filesystem::path& path);

/// Bytes in all regular files below `folder`.
Result<std::int64_t> size_of_folder(const std::filesystem::path& folder);

}  // namespace tinker::server
