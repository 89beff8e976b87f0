#include "base/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.h"
#include "base/strings.h"

namespace tinker::base {

Result<AtomicFile> AtomicFile::create(std::string path) {
  constexpr mode_t kMode = 0666;  // what the umask leaves of it
  for (unsigned attempt = 0;; ++attempt) {
    auto written = concat(path, ".", attempt, ".incomplete");
    FileDescriptor file(::open(written.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    if (file.is_open()) return AtomicFile(std::move(file), std::move(path), std::move(written));
    if (errno != EEXIST) return system_error("make", written);
  }
}

AtomicFile::~AtomicFile() {
  if (file_.is_open()) ::unlink(written_.c_str());
}

Result<void> AtomicFile::write(std::string_view bytes) {
  return write_all(file_, bytes, written_);
}

Result<void> AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) return system_error("sync", written_);
  if (std::rename(written_.c_str(), path_.c_str()) != 0) return system_error("make", path_);
  file_.reset();
  // So that the name survives a power cut, where the file system can promise that.
  const auto parent = std::filesystem::path(path_).parent_path();
  const FileDescriptor folder(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) ::fsync(folder.get());
  return {};
}

}  // namespace tinker::base
