#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/file_descriptor.h"

namespace tinker::stress {

/// A `tinker_load_server` in a process of its own, so that client and server have their descriptors
/// and their memory to themselves. Ends with this object.
class ServerProcess {
 public:
  explicit ServerProcess(std::vector<std::string> arguments = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  [[nodiscard]] const std::string& tls_url() const noexcept { return tls_url_; }
  [[nodiscard]] const std::string& ca_file() const noexcept { return ca_file_; }

 private:
  void read_addresses(int from);

  pid_t pid_ = -1;
  base::FileDescriptor stdin_;
  std::string url_;
  std::string tls_url_;
  std::string ca_file_;
};

}  // namespace tinker::stress
