#include "session/command_provider.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file_descriptor.h"
#include "support/temporary_folder.h"
#include "tinker/runtime.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::command_provider_test {
namespace {

using base::FileDescriptor;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Not;
using testing::TemporaryFolder;

/// A named pipe: whoever reads from it waits for the test.
class Gate {
 public:
  explicit Gate(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Returns once a reader is there; it waits on until the descriptor is closed.
  [[nodiscard]] FileDescriptor wait_for_reader() const {
    return FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  }

 private:
  std::string path_;
};

class CommandProviderTest : public ::testing::Test {
 protected:
  // Children are looked for below: none may be left of an earlier test.
  ~CommandProviderTest() override {
    runtime.reset();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  Future<Secret> start(const std::string& command) {
    const auto core = runtime->core();
    const auto provider = std::make_shared<CommandProvider>(core, Secret(command));
    return core->spawn(core->scope(), ask(provider));
  }
  static async::Task<Secret> ask(std::shared_ptr<CommandProvider> provider) {
    auto token = provider->token();
    co_return co_await std::move(token);
  }
  std::string run(const std::string& command) {
    const auto result = start(command).get();
    EXPECT_THAT(result, IsOk()) << command;
    return result.ok() ? result->expose() : "";
  }

  TemporaryFolder folder;
  std::unique_ptr<Runtime> runtime =
      std::make_unique<Runtime>(Runtime::start({.logger = Logger(), .worker_threads = 1}));
};

TEST_F(CommandProviderTest, GivesWhatTheShellPrintsWithoutSpaceAround) {  // R3.3
  EXPECT_EQ(run("echo tml-abc"), "tml-abc");
  EXPECT_EQ(run("printf ' \\t\\n %s %s \\r\\n\\n' two words"), "two words");
  EXPECT_EQ(run("echo any-form | tr a-z A-Z"), "ANY-FORM");
}

TEST_F(CommandProviderTest, RunsTheCommandForEveryToken) {  // R3.3
  const auto core = runtime->core();
  const auto provider = std::make_shared<CommandProvider>(
      core, Secret("echo x >> " + folder.path("runs") + "; wc -l < " + folder.path("runs")));
  for (const char* expected : {"1", "2", "3"}) {
    const auto result = core->spawn(core->scope(), provider->token()).get();
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->expose(), expected);
  }
}

TEST_F(CommandProviderTest, IgnoresStandardErrorAndTheExitStatus) {  // R3.3
  EXPECT_EQ(run("echo tml-abc; echo noise >&2; exit 3"), "tml-abc");
  EXPECT_EQ(run("readlink /proc/self/fd/2"), "/dev/null");
  EXPECT_EQ(run("readlink /proc/self/fd/0"), "/dev/null");
  EXPECT_EQ(run("echo tml-abc; kill -9 $$"), "tml-abc");
}

TEST_F(CommandProviderTest, FailsWithoutACredential) {  // R3.3
  for (const char* command : {"true", "false", "echo", "printf ' \\n'", "exec no-such-program"}) {
    EXPECT_THAT(start(command).get(),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("TINKER_CREDENTIAL_CMD"), Not(HasSubstr("no-such")))))
        << command;
  }
}

TEST_F(CommandProviderTest, RefusesWhatCannotBeSentInAHeader) {
  for (const char* command : {"echo tml-hush; echo more", "printf 'tml-hush\\001'"}) {
    EXPECT_THAT(start(command).get(),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("TINKER_CREDENTIAL_CMD"), Not(HasSubstr("hush")))))
        << command;
  }
}

TEST_F(CommandProviderTest, RefusesEndlessOutput) {
  EXPECT_THAT(start("yes tml-hush").get(),
              IsError(ErrorCode::io_error, AllOf(HasSubstr("65536"), Not(HasSubstr("hush")))));
  // Also of a shell that does not mind a broken pipe.
  EXPECT_THAT(start("trap '' PIPE; while :; do echo tml-hush; done").get(),
              IsError(ErrorCode::io_error, HasSubstr("65536")));
}

TEST_F(CommandProviderTest, HoldsUpNeitherOthersNorTheWorkers) {
  const Gate gate(folder.path("gate"));
  std::vector<Future<Secret>> slow;
  for (int i = 0; i < 3; ++i) slow.push_back(start("cat " + gate.path() + "; echo late"));

  EXPECT_EQ(run("echo tml-abc"), "tml-abc");
  EXPECT_THAT(runtime->core()->offload([] { return 1; }).get(), testing::IsOkAndHolds(1));
  EXPECT_FALSE(slow[0].is_ready());

  for (auto& future : slow) {
    // One opening may serve several readers; the others wait for the next.
    while (!future.is_ready()) {
      const FileDescriptor writer(::open(gate.path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      std::this_thread::yield();
    }
    EXPECT_EQ(future.get()->expose(), "late");
  }
}

TEST_F(CommandProviderTest, RunsMoreCommandsThanItAdmitsAtOnce) {
  std::vector<Future<Secret>> futures;
  for (std::size_t i = 0; i < CommandRunner::kMaxAtOnce + 8; ++i) {
    futures.push_back(start("echo " + std::to_string(i)));
  }
  for (std::size_t i = 0; i < futures.size(); ++i) {
    EXPECT_EQ(futures[i].get()->expose(), std::to_string(i));
  }
}

TEST_F(CommandProviderTest, EndsTheWaitAndTheShellWhenCancelled) {
  const Gate gate(folder.path("gate"));
  auto future = start("echo $$ > " + folder.path("pid") + "; exec cat " + gate.path());
  const FileDescriptor writer = gate.wait_for_reader();
  const pid_t pid = std::stoi(folder.read("pid"));

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("cancelled")));
  runtime.reset();
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(CommandProviderTest, ForgetsACommandThatIsCancelledBeforeItsTurn) {
  const Gate gate(folder.path("gate"));
  std::vector<Future<Secret>> busy;
  for (std::size_t i = 0; i < CommandRunner::kMaxAtOnce; ++i) {
    busy.push_back(start("cat " + gate.path()));
  }
  auto waiting = start("touch " + folder.path("ran"));
  waiting.cancel();
  EXPECT_THAT(waiting.get(), IsError(ErrorCode::cancelled, HasSubstr("cancelled")));
  for (auto& future : busy) future.cancel();
  EXPECT_EQ(run("echo tml-abc"), "tml-abc");
  EXPECT_FALSE(std::filesystem::exists(folder.path("ran")));
}

TEST_F(CommandProviderTest, EndsWithTheRuntime) {
  const Gate gate(folder.path("gate"));
  auto future = start("exec cat " + gate.path());
  const FileDescriptor writer = gate.wait_for_reader();

  runtime.reset();  // does not wait for the command

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

TEST_F(CommandProviderTest, DoesNotWaitForWhatTheShellLeavesRunning) {
  const Gate gate(folder.path("gate"));
  EXPECT_EQ(run("cat " + gate.path() + " & echo tml-abc"), "tml-abc");
  const FileDescriptor writer = gate.wait_for_reader();  // it runs on
}

TEST_F(CommandProviderTest, DoesNotWaitForAShellThatHasNothingMoreToSay) {
  const Gate gate(folder.path("gate"));
  EXPECT_EQ(run("echo tml-abc; exec cat " + gate.path() + " >&-"), "tml-abc");
}

TEST_F(CommandProviderTest, GivesTheShellNoneOfOurFiles) {
  const FileDescriptor open_file(::open("/dev/null", O_RDONLY));  // not close-on-exec
  const auto descriptor = "/proc/self/fd/" + std::to_string(open_file.get());
  ASSERT_TRUE(std::filesystem::exists(descriptor));
  EXPECT_EQ(run("test -e " + descriptor + " && echo leaked || echo clean"), "clean");
}

TEST_F(CommandProviderTest, GivesTheShellOrdinarySignals) {
  EXPECT_EQ(run("sed -n 's/^SigBlk:[[:space:]]*//p' /proc/self/status"), "0000000000000000");
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const auto ignored = run("sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status");
  std::signal(SIGPIPE, before);
  EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1ULL << (SIGPIPE - 1)), 0U);
}

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST_F(CommandProviderTest, LeaksNoFiles) {
  run("echo tml-abc");
  const auto before = open_files();
  for (int i = 0; i < 50; ++i) {
    run("echo tml-abc");
    EXPECT_FALSE(start("exit 1").get().ok());
    EXPECT_FALSE(start("yes").get().ok());
  }
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace tinker::session::command_provider_test
