#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include <sched.h>
#include <sys/mount.h>

namespace tinker::testing {

/// A file system of a few bytes, in memory, that is mounted at a folder as long as it lives. Only
/// the thread that makes it sees it, and the threads which that one starts later. Needs root.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path folder, std::size_t bytes) : folder_(std::move(folder)) {
    const std::string options = "mode=0700,size=" + std::to_string(bytes);
    is_mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("none", folder_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    error_ = errno;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }

  /// Whether it is there; where it is not, `error()` is the errno that says why.
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] std::size_t free_bytes() const {
    return static_cast<std::size_t>(std::filesystem::space(folder_).available);
  }

 private:
  std::filesystem::path folder_;
  bool is_mounted_ = false;
  int error_ = 0;
};

}  // namespace tinker::testing
