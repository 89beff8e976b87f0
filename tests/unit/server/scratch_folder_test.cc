#include "server/scratch_folder.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::scratch_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::IsOk;

/// With a folder for temporary files of its own.
class ScratchFolders : public ::testing::Test {
 protected:
  ScratchFolders() {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~ScratchFolders() override {
    before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
  }
  /// The folder of a process that was killed.
  static fs::path left_behind(const std::string& prefix) {
    std::array<int, 2> ends = {};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = ScratchFolder::create(prefix);
      const std::string name = folder.ok() ? (*folder)->path().string() : "";
      if (::write(ends[1], name.data(), name.size()) > 0) ::raise(SIGKILL);
      ::_exit(1);
    }
    ::close(ends[1]);
    std::string name(4096, '\0');
    name.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], name.data(), 4096))));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return name;
  }

  testing::TemporaryFolder folder_;
  std::optional<std::string> before_;
};

TEST_F(ScratchFolders, OfKilledProcessesGoWithTheNextOne) {
  const auto left = left_behind("mine");
  const auto other = left_behind("other");
  ASSERT_TRUE(fs::exists(left));

  const auto next = ScratchFolder::create("mine").value();

  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::exists(next->path()));
}

TEST_F(ScratchFolders, ThatAreInUseStay) {
  const auto first = ScratchFolder::create("mine").value();
  const auto second = ScratchFolder::create("mine").value();

  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_NE(first->path(), second->path());
}

TEST_F(ScratchFolders, SpareWhatIsNotTheirs) {
  fs::create_directory(folder_.path("mine-abcdef"));  // without a lock
  fs::create_directory(folder_.path("mine-data"));    // another name
  fs::create_directory(folder_.path("elsewhere"));
  for (const auto* name : {"mine-data", "elsewhere"}) {
    folder_.write(std::string(name) + "/temporary.lock", "");
  }
  fs::create_directory_symlink(folder_.path("elsewhere"), folder_.path("mine-aaaaaa"));

  EXPECT_THAT(ScratchFolder::create("mine"), IsOk());

  for (const auto* name : {"mine-abcdef", "mine-data", "mine-aaaaaa", "elsewhere/temporary.lock"}) {
    EXPECT_TRUE(fs::exists(folder_.path(name))) << name;
  }
}

}  // namespace
}  // namespace tinker::server::scratch_folder_test
