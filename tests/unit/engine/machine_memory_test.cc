#include "engine/machine_memory.h"

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace tinker::engine::machine_memory_test {
namespace {

constexpr const char* kMemory =
    "MemTotal:       4000 kB\nMemFree:  10 kB\nMemAvailable:   3000 kB\n";

TEST(ResidentMemory, IsThatOfThisProgram) {
  const testing::TemporaryFolder root;
  EXPECT_EQ(resident_memory(root.path()), 0U);

  root.write("proc/self/statm", "9000 700 600 1 0 800 0\n");

  EXPECT_EQ(resident_memory(root.path()) % 700, 0U);
  EXPECT_GE(resident_memory(root.path()), 700U * 4096);
  EXPECT_GT(resident_memory(), std::size_t{1} << 20U);
}

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

TEST(AvailableMemory, IsWhatTheTightestGroupAroundTheProcessHasLeft) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);
  root.write("proc/self/cgroup", "1:name=systemd:/other\n0::/user.slice/job:7\n");
  root.write("sys/fs/cgroup/user.slice/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/user.slice/memory.current", "900000\n");
  root.write("sys/fs/cgroup/user.slice/memory.stat", "inactive_file 50000\n");
  EXPECT_EQ(available_memory(root.path()), 150'000U);

  root.write("sys/fs/cgroup/user.slice/job:7/memory.max", "500000\n");
  root.write("sys/fs/cgroup/user.slice/job:7/memory.current", "400000\n");
  EXPECT_EQ(available_memory(root.path()), 100'000U);

  root.write("sys/fs/cgroup/user.slice/job:7/memory.max", "max\n");
  EXPECT_EQ(available_memory(root.path()), 150'000U);
}

TEST(AvailableMemory, FindsTheOlderGroupOfTheProcess) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);
  root.write("proc/self/cgroup", "3:hugetlb_memory:/x\n2:cpu,memory:/slurm/job\n0::/x\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "700000\n");
  root.write("sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "1000000\n");
  root.write("sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", "600000\n");
  root.write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
  root.write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1\n");

  EXPECT_EQ(available_memory(root.path()), 400'000U);
}

TEST(AvailableMemory, DoesNotLeaveTheGroupsThatAContainerSees) {
  const testing::TemporaryFolder root;
  root.write("proc/meminfo", kMemory);
  root.write("sys/fs/cgroup/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/memory.current", "700000\n");
  root.write("sys/fs/memory.max", "1\n");
  root.write("sys/fs/memory.current", "1\n");
  for (const char* const group : {"0::/docker/0123/not here\n", "0::/../job\n", "0::/\n", "0:\n"}) {
    root.write("proc/self/cgroup", group);
    EXPECT_EQ(available_memory(root.path()), 300'000U) << group;
  }
}

TEST(AvailableMemory, IsLargeWhereNothingIsKnown) {
  const testing::TemporaryFolder root;

  EXPECT_GT(available_memory(root.path()), std::size_t{1} << 60U);
}

}  // namespace
}  // namespace tinker::engine::machine_memory_test
