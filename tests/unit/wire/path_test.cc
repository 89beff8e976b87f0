#include "wire/path.h"

#include <gtest/gtest.h>

namespace tinker::wire::path_test {
namespace {

TEST(Path, IsADollarAtTheTop) {
  EXPECT_EQ(Path().to_string(), "$");
}

TEST(Path, JoinsMembersWithDotsAndElementsWithBrackets) {
  Path path;
  const Path::Step prompt(path, "prompt");
  const Path::Step chunks(path, "chunks");
  const Path::Step first(path, std::size_t{0});
  const Path::Step tokens(path, "tokens");
  const Path::Step third(path, std::size_t{2});

  EXPECT_EQ(path.to_string(), "prompt.chunks[0].tokens[2]");
}

TEST(Path, BeginsWithABracketInAnArray) {
  Path path;
  const Path::Step element(path, std::size_t{7});
  EXPECT_EQ(path.to_string(), "[7]");
}

TEST(Path, ForgetsAStepWhenItsObjectDies) {
  Path path;
  const Path::Step outer(path, "outer");
  {
    const Path::Step inner(path, "inner");
    EXPECT_EQ(path.to_string(), "outer.inner");
  }
  EXPECT_EQ(path.to_string(), "outer");
}

}  // namespace
}  // namespace tinker::wire::path_test
