#include "engine/cpu.h"

#include <algorithm>
#include <array>
#include <limits>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::engine::cpu_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

constexpr std::array kAll = {
    CpuPath::scalar, CpuPath::avx2, CpuPath::avx512, CpuPath::avx512bf16, CpuPath::amx};

TEST(CpuPaths, AreThoseOfTheMachineSlowestFirst) {
  const auto paths = cpu_paths();

  EXPECT_EQ(paths.front(), CpuPath::scalar);
  EXPECT_TRUE(std::ranges::is_sorted(paths));
  EXPECT_THAT(kAll, IsSupersetOf(paths));
}

TEST(ChooseCpuPath, TakesTheFastestWhenNothingIsAskedFor) {
  EXPECT_THAT(choose_cpu_path(std::nullopt), IsOkAndHolds(cpu_paths().back()));
}

TEST(ChooseCpuPath, TakesWhatTheMachineHasByName) {
  for (const auto path : cpu_paths())
    EXPECT_THAT(choose_cpu_path(std::string(to_string(path))), IsOkAndHolds(path));
}

TEST(ChooseCpuPath, RefusesNamesThatItDoesNotKnow) {
  for (const char* const name : {"mmx", "", "AVX2", "avx2 "}) {
    EXPECT_THAT(choose_cpu_path(name),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("no kernels are called '" + std::string(name) + "'"),
                              HasSubstr("this machine has scalar"))));
  }
}

TEST(ChooseCpuPath, RefusesWhatTheMachineDoesNotHave) {
  const auto paths = cpu_paths();
  for (const auto path : kAll) {
    if (std::ranges::find(paths, path) != paths.end()) continue;
    const std::string name(to_string(path));

    EXPECT_THAT(choose_cpu_path(name),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("this machine cannot run the kernels '" + name + "'"),
                              HasSubstr("it has scalar"))));
  }
}

#if defined(__x86_64__)
TEST(FlushSubnormals, LastsAsLongAsItLives) {
  volatile float smallest = std::numeric_limits<float>::min();
  {
    const FlushSubnormals flush;
    EXPECT_EQ(smallest / 2, 0);
  }
  EXPECT_GT(smallest / 2, 0);
}
#endif

}  // namespace
}  // namespace tinker::engine::cpu_test
