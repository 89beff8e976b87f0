#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "server/journal_record.h"
#include "tinker/result.h"

namespace tinker::server {

/// A file of records, each behind the other: eight bytes that say what the file is, then for each
/// record its length, the CRC-32C of the length, the CRC-32C of the record, and the record.
///
/// A crash can leave the last records incomplete; they were not acknowledged and are cut off when
/// the file is opened. Any other damage is an error.
///
/// Thread-compatible.
class JournalFile {
 public:
  struct Opened;
  /// Bodies of records may be so long: with the rest, the length has 32 bits.
  static constexpr std::size_t kMostBytes = std::size_t{4095} << 20U;

  /// Makes it with these records, or puts them in the place of what it has: at once, and on the
  /// disk when it returns. Also makes the folders above it.
  static Result<JournalFile> create(const std::string& path,
                                    std::span<const JournalRecord> records);
  /// Fails with `io_error`, naming the file and the place of the damage.
  static Result<Opened> open(std::string path);

  /// Adds the records; on the disk when it returns. If it fails, the file is as it was before.
  Result<void> append(std::span<const JournalRecord> records);
  /// Puts another file in its place, as `create` does: `head`, then those of its records for which
  /// `keep` is true. One of them is in memory at a time.
  [[nodiscard]] Result<JournalFile> rewrite(
      std::span<const JournalRecord> head,
      const std::function<bool(const JournalRecord&)>& keep) const;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  struct NewFile;
  JournalFile(base::FileDescriptor file, std::string path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  base::FileDescriptor file_;
  std::string path_;
  std::uint64_t size_;  // of what is on the disk for certain
};

struct JournalFile::Opened {
  JournalFile file;
  std::vector<JournalRecord> records;
};

}  // namespace tinker::server
