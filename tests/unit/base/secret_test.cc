#include "tinker/secret.h"

#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

namespace tinker::secret_test {
namespace {

template <typename T>
concept Streamable = requires(std::ostream& out, const T& value) { out << value; };

TEST(Secret, HandsOutItsTextByNameOnly) {
  const Secret secret("tml-key");

  EXPECT_EQ(secret.expose(), "tml-key");
}

TEST(Secret, IsEmptyByDefault) {
  const Secret secret;

  EXPECT_TRUE(secret.empty());
  EXPECT_EQ(secret.expose(), "");
}

TEST(Secret, IsNotEmptyWithAText) {
  const Secret secret("k");

  EXPECT_FALSE(secret.empty());
}

TEST(Secret, EqualsASecretOfTheSameText) {
  EXPECT_TRUE(Secret("a") == Secret("a"));
  EXPECT_FALSE(Secret("a") == Secret("b"));
}

TEST(Secret, CannotBeStreamed) {
  EXPECT_TRUE(Streamable<std::string>);
  EXPECT_FALSE(Streamable<Secret>);
}

TEST(Secret, DoesNotTurnIntoTextByItself) {
  EXPECT_FALSE((std::is_convertible_v<Secret, std::string>));
  EXPECT_FALSE((std::is_convertible_v<Secret, std::string_view>));
  EXPECT_FALSE((std::is_convertible_v<Secret, const char*>));
}

TEST(Secret, IsNotMadeFromTextByAccident) {
  EXPECT_FALSE((std::is_convertible_v<std::string, Secret>));
}

TEST(Secret, MovesWithoutThrowing) {
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Secret>);
}

}  // namespace
}  // namespace tinker::secret_test
