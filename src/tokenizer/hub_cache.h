#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "tinker/result.h"

// The cache of the Python hub client, whose layout this is:
//
//     models--ORG--NAME/refs/REVISION            the commit that a branch or tag was last
//     models--ORG--NAME/snapshots/COMMIT/FILE    a link into blobs
//     models--ORG--NAME/blobs/ETAG               content; ETAG.incomplete while it comes
//     models--ORG--NAME/.no_exist/COMMIT/FILE    what a commit is known not to have
//     .locks/models--ORG--NAME/ETAG.lock         held by the process that brings it
namespace tinker::tokenizer {

/// A file of a repository at a revision.
struct HubPath {
  std::string repository = {};
  std::string revision = {};
  std::string name = {};

  /// "Qwen/Qwen3-8B: tokenizer.json at main", for messages.
  [[nodiscard]] std::string to_string() const;
};

/// Refuses what no hub has and what would leave the cache.
Result<void> check(const HubPath& path);

/// Whether a revision can never mean anything else.
bool is_commit(std::string_view revision) noexcept;

class IncompleteBlob;

/// All calls block: they are for workers. Thread-safe, and safe beside other processes.
class HubCache {
 public:
  explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}

  struct Found {
    std::optional<std::string> path = {};
    bool is_absent = false;  ///< It is known that there is no such file.
  };
  /// What the cache knows of a file, without the network.
  [[nodiscard]] Found find(const HubPath& path) const;

  /// The content is here already.
  [[nodiscard]] bool has_blob(const std::string& repository, const std::string& etag) const;
  /// Locks it for this process and takes up what an earlier download left. Null while somebody else
  /// holds it, and once it is here.
  [[nodiscard]] Result<std::shared_ptr<IncompleteBlob>> open_blob(const std::string& repository,
                                                                  const std::string& etag) const;
  /// Shows a blob under its name at `commit`, which its revision then means; gives its path.
  [[nodiscard]] Result<std::string> publish(const HubPath& path,
                                            const std::string& commit,
                                            const std::string& etag) const;
  /// At `commit` there is no such file.
  [[nodiscard]] Result<void> note_absent(const HubPath& path, const std::string& commit) const;
  /// The revision of `path`, unless it is a commit itself, means `commit` from now on.
  [[nodiscard]] Result<void> set_revision(const HubPath& path, const std::string& commit) const;
  /// What unfinished downloads of a repository have brought.
  [[nodiscard]] std::uint64_t incomplete_bytes(const std::string& repository) const;

 private:
  [[nodiscard]] std::filesystem::path folder(const std::string& repository) const;

  std::filesystem::path root_;
};

/// Content on its way into the cache. Stays behind when the download does not finish.
///
/// Thread-compatible; calls block.
class IncompleteBlob {
 public:
  IncompleteBlob(std::filesystem::path target,
                 std::string etag,
                 base::FileDescriptor lock,
                 base::FileDescriptor file);

  /// How much of it has come.
  [[nodiscard]] Result<std::uint64_t> size() const;
  Result<void> cut(std::uint64_t size) const;
  Result<void> write(std::uint64_t offset, std::string_view bytes) const;
  /// It is complete: checks it against its name, where that is a checksum, and moves it to its
  /// place. Damaged, it is dropped: `conflict`.
  Result<void> finish() const;

 private:
  [[nodiscard]] Result<void> verify() const;
  [[nodiscard]] std::string path() const { return target_.string() + ".incomplete"; }

  std::filesystem::path target_;
  std::string etag_;
  base::FileDescriptor lock_;
  base::FileDescriptor file_;
};

}  // namespace tinker::tokenizer
