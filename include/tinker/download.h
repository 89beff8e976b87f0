#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tinker {

/// How far a download is.
struct DownloadProgress {
  std::string file = {};         ///< The one that the latest bytes belong to.
  std::uint64_t bytes_done = 0;  ///< Of all files, with what an earlier call had fetched already.
  std::optional<std::uint64_t> bytes_total = {};  ///< Nothing while a size is still unknown.

  friend bool operator==(const DownloadProgress&, const DownloadProgress&) = default;
};

/// How a checkpoint is downloaded.
struct DownloadOptions {
  /// Requests in flight at a time, each on a connection of its own. Default: 4. From 1 to 64.
  std::size_t connections = 4;
  /// Files are fetched in parts of that many bytes, which is also what an interruption can cost
  /// per connection. Default: 8 MiB. At least 1024.
  std::size_t part_bytes = std::size_t{8} << 20U;
  /// Replace what is at the target, once the new copy is complete. Default: no, it is an error.
  bool overwrite = false;
  /// Refuse archives that are longer than this, unpacked. In bytes. Default: 1 TiB.
  std::uint64_t max_archive_bytes = std::uint64_t{1} << 40U;
  /// Called on the callback thread, never twice at a time; `bytes_done` does not fall, and the last
  /// call has all of them. An exception ends the download with `ErrorCode::internal`. Default:
  /// none.
  std::function<void(const DownloadProgress&)> progress = {};
};

/// What storage sent to check a file with; it was checked where it is not `none`.
enum class Checksum { none, crc32c, md5, sha256 };

struct DownloadedFile {
  std::string name = {};  ///< Relative to the folder, with '/'.
  std::uint64_t size = 0;
  Checksum checksum = Checksum::none;  ///< Of a file from an archive: that of the archive.

  friend bool operator==(const DownloadedFile&, const DownloadedFile&) = default;
};

/// A checkpoint on disk.
struct DownloadedCheckpoint {
  std::string folder = {};                 ///< Absolute.
  std::vector<DownloadedFile> files = {};  ///< By name.
  std::uint64_t bytes_reused = 0;          ///< Fetched by an earlier call that did not finish.

  friend bool operator==(const DownloadedCheckpoint&, const DownloadedCheckpoint&) = default;
};

}  // namespace tinker
