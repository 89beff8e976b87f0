#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "tinker/result.h"

// Files of a download while it is under way. All calls block: they are for workers.
namespace tinker::client {

/// How an object is cut into parts, and which of them are on disk.
struct PartState {
  std::uint64_t size = 0;
  std::uint64_t part_bytes = 1;
  std::string etag = {};
  std::vector<bool> done = {};

  static PartState of(std::uint64_t size, std::uint64_t part_bytes, std::string etag);
  [[nodiscard]] std::uint64_t begin(std::size_t part) const noexcept { return part * part_bytes; }
  [[nodiscard]] std::uint64_t bytes_of(std::size_t part) const noexcept;
  [[nodiscard]] std::uint64_t bytes_done() const noexcept;
};

class PartialFile;

/// The file of an object, and what an earlier download left in it.
struct OpenedObject {
  std::shared_ptr<PartialFile> file = {};
  std::optional<PartState> parts = {};
};

/// `TARGET.partial`, beside the target: what has come (`objects/`), a journal of it, and for
/// archives what was in them (`files/`). Locked while it is open; stays behind when the download
/// does not finish.
///
/// Thread-safe.
class PartialFolder : public std::enable_shared_from_this<PartialFolder> {
 public:
  /// Takes up what an earlier download of the same checkpoint left, and removes what one of another
  /// did. Fails with `io_error`, retryable while somebody else holds it; a folder of that name that
  /// no download made is left alone.
  static Result<std::shared_ptr<PartialFolder>> open(const std::string& target,
                                                     const std::string& checkpoint);

  /// Opens or makes the file of an object. `name` is clean.
  Result<OpenedObject> open_object(const std::string& name);
  /// Nothing of an object counts any more.
  Result<void> forget(const std::string& name) const;
  [[nodiscard]] std::string objects() const { return path_ + "/objects"; }
  /// An empty folder for what an archive holds.
  Result<std::string> make_files() const;
  /// Makes `folder`, one of this folder's own, the target: on disk, complete, at once. With
  /// `overwrite` what is there gives way and is gone afterwards; if anything fails it is still
  /// there. Then removes the rest.
  Result<void> publish(const std::string& folder, bool overwrite) const;

 private:
  friend class PartialFile;
  PartialFolder(std::string path, std::string target, base::FileDescriptor journal)
      : path_(std::move(path)), target_(std::move(target)), journal_(std::move(journal)) {}
  static Result<base::FileDescriptor> open_journal(const std::string& path);
  Result<void> read_journal(const std::string& checkpoint);
  void replay(std::string_view line);
  Result<void> note(const std::string& line) const;

  std::string path_;
  std::string target_;
  base::FileDescriptor journal_;  // holds the lock
  std::map<std::string, PartState, std::less<>> found_ = {};
};

/// The bytes of one object, wherever in it they belong. Keeps its folder locked. Once it is told to
/// forget what it holds, nothing more goes into it, not even what is on its way: the object is to
/// be opened again.
///
/// Thread-safe.
class PartialFile {
 public:
  PartialFile(std::shared_ptr<const PartialFolder> folder,
              std::string name,
              std::string path,
              base::FileDescriptor file)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        path_(std::move(path)),
        file_(std::move(file)) {}

  /// From here on it has these parts, none of them done. Fails when there is no room for them.
  Result<void> begin(const PartState& parts) const;
  Result<void> forget();
  Result<void> write(std::uint64_t offset, std::string_view bytes) const;
  /// A part is complete: on disk first, then in the journal.
  Result<void> finish_part(std::size_t part) const;
  /// All is written: afterwards it has exactly `size` bytes, on disk.
  Result<void> finish(std::uint64_t size) const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::shared_ptr<const PartialFolder> folder_;
  std::string name_;
  std::string path_;
  base::FileDescriptor file_;
  mutable std::shared_mutex mutex_ = {};  // held by whoever writes; alone by who forgets
  bool is_forgotten_ = false;             // guarded by it
};

/// The target of a download: absolute, without a trailing slash. Fails with `invalid_argument` when
/// it names no folder, with `io_error` when something is there that may not be overwritten.
Result<std::string> check_target(const std::string& folder, bool overwrite);

}  // namespace tinker::client
