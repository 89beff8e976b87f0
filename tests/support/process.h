#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tinker::testing {

/// Where a program is, or empty when it is not installed.
inline std::string find_program(const std::string& name) {
  for (const char* folder : {"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"}) {
    std::string path = std::string(folder) + "/" + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A port nobody listens on at the moment, another one with each call. It is none of those that
/// the system hands out by itself (from 32768 on), so no socket of another test can take it.
inline std::uint16_t free_port() {
  constexpr int lowest = 10'000;
  constexpr int highest = 32'000;
  static int next = lowest + static_cast<int>(::getpid() * 101 % (highest - lowest));
  for (int tries = lowest; tries < highest; ++tries) {
    if (++next > highest) next = lowest;
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;  // as servers do: what only lingers is free
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in address = loopback(static_cast<std::uint16_t>(next));
    const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(fd);
    if (bound == 0) return static_cast<std::uint16_t>(next);
  }
  std::abort();  // twenty thousand servers on one machine
}

/// A program that runs beside the test and ends with it.
class Process {
 public:
  /// Its output goes to the file `log`.
  Process(std::vector<std::string> command, const std::string& log) {
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!has_ended_) ::kill(pid_, SIGTERM);
    if (!has_ended_) ::waitpid(pid_, nullptr, 0);
  }

  /// Waits until it listens; false when it ended or 20 seconds have passed.
  bool wait_for_port(std::uint16_t port) {
    for (int i = 0; i < 2000; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = loopback(port);
      const int connected =
          ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
      ::close(fd);
      if (connected == 0) return true;
      if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        has_ended_ = true;
        return false;
      }
      ::poll(nullptr, 0, 10);
    }
    return false;
  }

 private:
  pid_t pid_ = -1;
  bool has_ended_ = false;
};

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tinker_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tinker::testing
