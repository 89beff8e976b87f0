#include "engine/machine_memory.h"

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace tinker::engine {
namespace {

constexpr const char* kMemory =
    "MemTotal:       4000 kB\nMemFree:  10 kB\nMemAvailable:   3000 kB\n";

TEST(AvailableMemory, IsWhatTheMachineHasLeft) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);

  EXPECT_EQ(available_memory(root.path()), 3000U << 10U);
}

TEST(AvailableMemory, IsWhatAContainerHasLeft) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);
  root.write("sys/fs/cgroup/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/memory.current", "700000\n");
  EXPECT_EQ(available_memory(root.path()), 300'000U);

  // Pages of files may go.
  root.write("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_EQ(available_memory(root.path()), 400'000U);

  root.write("sys/fs/cgroup/memory.current", "1700000\n");
  EXPECT_EQ(available_memory(root.path()), 0U);

  root.write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory(root.path()), 3000U << 10U);
}

TEST(AvailableMemory, KnowsTheOlderControlGroups) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "700000\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 3\ntotal_inactive_file 50000\n");

  EXPECT_EQ(available_memory(root.path()), 350'000U);
}

TEST(AvailableMemory, IsLargeWhereNothingIsKnown) {
  const testing::TemporaryFolder root;

  EXPECT_GT(available_memory(root.path()), std::size_t{1} << 60U);
}

}  // namespace
}  // namespace tinker::engine
