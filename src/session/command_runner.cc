#include "session/command_runner.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "async/thread_pool.h"
#include "base/file_descriptor.h"
#include "base/strings.h"
#include "tinker/detail/mutex.h"
#include "tinker/result.h"

namespace tinker::session {

namespace {

using base::FileDescriptor;

// How often to look for shells that ended without closing their output: what they left running
// holds it open.
constexpr std::chrono::milliseconds kTick{100};

Error failed(std::string_view what, int error) {
  return {.code = ErrorCode::io_error,
          .message = base::concat(what, ": ", std::generic_category().message(error))};
}

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;

  static Result<Pipe> create() {
    std::array<int, 2> ends = {};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      return failed("cannot make a pipe", errno);
    }
    return Pipe{.read_end = FileDescriptor(ends[0]), .write_end = FileDescriptor(ends[1])};
  }
};

/// How a shell is started: with nothing of ours but the pipe it writes to.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // Connections are not marked close-on-exec by every library that opens them.
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    // Threads of the library block all signals, and programs that use the network ignore SIGPIPE;
    // a shell expects neither.
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const noexcept { return &actions_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const noexcept { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// A shell and the pipe it writes to. Dies it before the shell, it ends that.
class Shell {
 public:
  static Result<Shell> start(const Secret& command) {
    TINKER_TRY(Pipe pipe, Pipe::create());
    // The shell's end blocks like any other; only we must not.
    ::fcntl(pipe.write_end.get(), F_SETFL, 0);
    const SpawnSettings settings(pipe.write_end.get());
    std::string name = "sh";
    std::string option = "-c";
    std::string text = command.expose();
    const std::array<char*, 4> arguments = {name.data(), option.data(), text.data(), nullptr};
    pid_t pid = 0;
    const int error = ::posix_spawn(
        &pid, "/bin/sh", settings.actions(), settings.attributes(), arguments.data(), environ);
    if (error != 0) return failed("cannot start /bin/sh", error);
    return Shell(pid, std::move(pipe.read_end));
  }
  Shell(Shell&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), output_(std::move(other.output_)) {}
  Shell& operator=(Shell&&) = delete;
  ~Shell() { end(); }

  [[nodiscard]] int output() const noexcept { return output_.get(); }
  /// Also true when somebody else in this process has waited for it.
  bool has_ended() {
    if (pid_ == 0) return true;
    const pid_t waited = ::waitpid(pid_, nullptr, WNOHANG);
    if (waited == pid_ || (waited < 0 && errno != EINTR)) pid_ = 0;
    return pid_ == 0;
  }
  void close_output() noexcept { output_.reset(); }
  void end() {
    if (has_ended()) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
  }

 private:
  Shell(pid_t pid, FileDescriptor output) noexcept : pid_(pid), output_(std::move(output)) {}

  pid_t pid_;  // 0 once it was waited for
  FileDescriptor output_;
};

struct Order {
  std::uint64_t id = 0;
  Secret command = {};
  Promise<std::string> promise;
};

}  // namespace

/// What reaches the watcher from other threads.
struct CommandRunner::Inbox {
  Pipe wake_up;
  detail::Mutex mutex;
  std::uint64_t last_id TINKER_GUARDED_BY(mutex) = 0;
  std::vector<Order> orders TINKER_GUARDED_BY(mutex);
  std::vector<std::uint64_t> cancelled TINKER_GUARDED_BY(mutex);
  bool is_ending TINKER_GUARDED_BY(mutex) = false;

  explicit Inbox(Pipe pipe) : wake_up(std::move(pipe)) {}

  void wake() const {
    // A full pipe wakes as well.
    [[maybe_unused]] const auto written = ::write(wake_up.write_end.get(), "!", 1);
  }
  void cancel(std::uint64_t id) {
    const detail::MutexLock lock(mutex);
    cancelled.push_back(id);
    wake();
  }
};

/// The thread's own part.
class CommandRunner::Watcher {
 public:
  explicit Watcher(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {}

  void run() {
    async::enter_library_thread("tinker-command");
    while (take_mail()) {
      start_waiting();
      wait();
      for (auto& child : running_) read(child);
      running_.remove_if([](Child& child) { return !child.promise && child.shell.has_ended(); });
    }
  }

 private:
  struct Child {
    std::uint64_t id;
    Shell shell;
    std::optional<Promise<std::string>> promise;  // until it has its result
    std::string output = {};
  };

  /// False when it is time to end.
  bool take_mail() {
    std::vector<std::uint64_t> cancelled;
    {
      const detail::MutexLock lock(inbox_->mutex);
      if (inbox_->is_ending) return false;
      for (auto& order : inbox_->orders) waiting_.push_back(std::move(order));
      inbox_->orders.clear();
      cancelled.swap(inbox_->cancelled);
    }
    for (const auto id : cancelled) {
      std::erase_if(waiting_, [&](const Order& order) { return order.id == id; });
      running_.remove_if([&](const Child& child) { return child.id == id; });
    }
    return true;
  }

  void start_waiting() {
    while (!waiting_.empty() && running_.size() < kMaxAtOnce) {
      Order order = std::move(waiting_.front());
      waiting_.pop_front();
      auto shell = Shell::start(order.command);
      if (shell) {
        running_.push_back(
            {.id = order.id, .shell = *std::move(shell), .promise = std::move(order.promise)});
      } else {
        order.promise.set(std::move(shell).error());
      }
    }
  }

  void wait() {
    std::vector<pollfd> files = {
        {.fd = inbox_->wake_up.read_end.get(), .events = POLLIN, .revents = 0}};
    for (const auto& child : running_) {
      files.push_back({.fd = child.shell.output(), .events = POLLIN, .revents = 0});
    }
    const int timeout = running_.empty() ? -1 : static_cast<int>(kTick.count());
    ::poll(files.data(), files.size(), timeout);
    std::array<char, 64> marks = {};
    while (::read(inbox_->wake_up.read_end.get(), marks.data(), marks.size()) > 0) {
    }
  }

  static void read(Child& child) {
    if (!child.promise) return;
    // Asked first: what it wrote before its end is then in the pipe.
    const bool has_ended = child.shell.has_ended();
    std::array<char, 4096> buffer = {};
    while (true) {
      const ssize_t count = ::read(child.shell.output(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN && !has_ended) return;
      if (count < 0 && errno != EAGAIN) {
        return finish(child, failed("cannot read what the command prints", errno));
      }
      if (count <= 0) return finish(child, std::move(child.output));
      child.output.append(buffer.data(), static_cast<std::size_t>(count));
      if (child.output.size() > kMaxOutputBytes) {
        child.shell.end();
        return finish(child,
                      Error{.code = ErrorCode::io_error,
                            .message = base::concat(
                                "the command prints more than ", kMaxOutputBytes, " bytes")});
      }
    }
  }

  static void finish(Child& child, Result<std::string> result) {
    child.shell.close_output();
    if (child.promise) child.promise->set(std::move(result));
    child.promise.reset();
  }

  std::shared_ptr<Inbox> inbox_;
  std::deque<Order> waiting_;
  std::list<Child> running_;
};

CommandRunner::CommandRunner() {
  auto pipe = Pipe::create();
  if (!pipe) return;
  inbox_ = std::make_shared<Inbox>(*std::move(pipe));
}

CommandRunner::~CommandRunner() {
  if (!thread_.joinable()) return;
  {
    const detail::MutexLock lock(inbox_->mutex);
    inbox_->is_ending = true;
    inbox_->wake();
  }
  thread_.join();
}

Future<std::string> CommandRunner::run(Secret command, std::shared_ptr<Executor> executor) {
  if (!inbox_) {
    return Future<std::string>::ready(failed("cannot run commands", EMFILE));
  }
  Promise<std::string> promise(std::move(executor));
  auto future = promise.future();
  const detail::MutexLock lock(inbox_->mutex);
  if (!thread_.joinable()) {
    thread_ = std::thread([inbox = inbox_] { Watcher(inbox).run(); });
  }
  const auto id = ++inbox_->last_id;
  promise.on_cancel([weak = std::weak_ptr(inbox_), id] {
    if (const auto alive = weak.lock()) alive->cancel(id);
  });
  inbox_->orders.push_back(
      {.id = id, .command = std::move(command), .promise = std::move(promise)});
  inbox_->wake();
  return future;
}

}  // namespace tinker::session
