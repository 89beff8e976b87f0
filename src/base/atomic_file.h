#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/file_descriptor.h"
#include "tinker/result.h"

namespace tinker::base {

/// A file that has its name only once it is complete: it is written beside it, and removed again
/// unless `commit` puts it there, on the disk, in the place of what had the name before.
///
/// Thread-compatible.
class AtomicFile {
 public:
  static Result<AtomicFile> create(std::string path);
  AtomicFile(AtomicFile&& other) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::string_view bytes);
  Result<void> commit();

 private:
  AtomicFile(FileDescriptor file, std::string path, std::string written)
      : file_(std::move(file)), path_(std::move(path)), written_(std::move(written)) {}

  FileDescriptor file_;  // open until it is committed or moved from
  std::string path_;
  std::string written_;  // the name until then
};

}  // namespace tinker::base
