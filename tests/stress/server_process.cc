#include "stress/server_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tinker/check.h"

namespace tinker::stress {

namespace {

struct Pipe {
  base::FileDescriptor read;
  base::FileDescriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends = {};
  TINKER_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {.read = base::FileDescriptor(ends[0]), .write = base::FileDescriptor(ends[1])};
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> arguments) {
  // Set by CMake; another path helps to run a test by hand.
  const char* const path = std::getenv("TINKER_LOAD_SERVER");
  arguments.insert(arguments.begin(), path != nullptr ? path : TINKER_LOAD_SERVER_PATH);
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  Pipe to = make_pipe();
  Pipe from = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from.write.get(), STDOUT_FILENO);
  const int spawned =
      ::posix_spawn(&pid_, pointers.front(), &actions, nullptr, pointers.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  TINKER_CHECK(spawned == 0);
  stdin_ = std::move(to.write);
  from.write.reset();
  read_addresses(from.read.get());
}

void ServerProcess::read_addresses(int from) {
  std::string text;
  std::array<char, 512> buffer = {};
  while (std::count(text.begin(), text.end(), '\n') < 3) {
    const auto count = ::read(from, buffer.data(), buffer.size());
    TINKER_CHECK(count > 0 || (count < 0 && errno == EINTR));
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::istringstream words(text);
  std::string name;
  words >> name >> url_ >> name >> tls_url_ >> name >> ca_file_;
}

ServerProcess::~ServerProcess() {
  stdin_.reset();
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

}  // namespace tinker::stress
