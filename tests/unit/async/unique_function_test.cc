#include "tinker/unique_function.h"

#include <array>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>

namespace tinker::unique_function_test {
namespace {

// Counts how many of its kind are alive.
class Counted {
 public:
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) : alive_(other.alive_) { ++*alive_; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
  ~Counted() { --*alive_; }

 private:
  int* alive_;
};

using Large = std::array<char, 200>;

TEST(UniqueFunction, CallsWithArgumentsAndReturns) {
  UniqueFunction<std::string(std::string, int)> repeat = [](std::string text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };

  EXPECT_EQ(repeat("ab", 3), "ababab");
}

TEST(UniqueFunction, IsFalseWithoutACallable) {
  EXPECT_FALSE(UniqueFunction<void()>());
  EXPECT_FALSE(UniqueFunction<void()>(nullptr));
  EXPECT_TRUE(UniqueFunction<void()>([] {}));
}

TEST(UniqueFunctionDeathTest, RefusesToCallNothing) {
  UniqueFunction<void()> nothing;

  EXPECT_DEATH(nothing(), "table_");
}

TEST(UniqueFunction, KeepsItsStateBetweenCalls) {
  UniqueFunction<int()> next = [n = 0]() mutable { return ++n; };

  next();

  EXPECT_EQ(next(), 2);
}

TEST(UniqueFunction, OwnsWhatCannotBeCopied) {
  UniqueFunction<int()> small = [value = std::make_unique<int>(7)] { return *value; };
  UniqueFunction<int()> large = [value = std::make_unique<int>(8), pad = Large()] {
    return *value + pad[0];
  };

  EXPECT_EQ(small(), 7);
  EXPECT_EQ(large(), 8);
}

TEST(UniqueFunction, PassesOnWhatCannotBeCopied) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>)> add = [](std::unique_ptr<int> value) {
    ++*value;
    return value;
  };

  EXPECT_EQ(*add(std::make_unique<int>(1)), 2);
}

TEST(UniqueFunction, PassesReferencesOn) {
  UniqueFunction<void(int&)> increment = [](int& value) { ++value; };
  int value = 1;

  increment(value);

  EXPECT_EQ(value, 2);
}

TEST(UniqueFunction, CopiesACallableThatIsGivenAsAnLvalue) {
  const auto seven = [] { return 7; };
  UniqueFunction<int()> function = seven;

  EXPECT_EQ(function(), 7);
}

template <typename Padding>
struct OneOf {
  explicit OneOf(int& alive) : counted(alive) {}
  int operator()() const { return 7; }
  Counted counted;
  Padding padding = {};
};

template <typename Callable>
void expect_moves_one_object() {
  int alive = 0;
  {
    UniqueFunction<int()> first = Callable(alive);
    EXPECT_EQ(alive, 1);
    UniqueFunction<int()> second = std::move(first);
    EXPECT_EQ(alive, 1);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is left is promised.
    first = std::move(second);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(first(), 7);
  }
  EXPECT_EQ(alive, 0);
}

TEST(UniqueFunction, MovesASmallCallableLeavingNothingBehind) {
  expect_moves_one_object<OneOf<char>>();
}
TEST(UniqueFunction, MovesALargeCallableLeavingNothingBehind) {
  expect_moves_one_object<OneOf<Large>>();
}

TEST(UniqueFunction, DestroysWhatItHeldWhenAnotherIsAssigned) {
  int first = 0;
  int second = 0;
  UniqueFunction<void()> function = [counted = Counted(first)] {};

  function = [counted = Counted(second)] {};

  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  function = nullptr;
  EXPECT_EQ(second, 0);
}

TEST(UniqueFunction, SurvivesBeingMovedToItself) {
  int alive = 0;
  UniqueFunction<int()> function = [counted = Counted(alive)] { return 7; };
  auto& same = function;

  function = std::move(same);

  EXPECT_EQ(alive, 1);
  EXPECT_EQ(function(), 7);
}

TEST(UniqueFunction, KeepsACallableWhoseMoveMayThrowInOnePlace) {
  struct Throwing {
    Throwing() = default;
    // NOLINTBEGIN(bugprone-exception-escape,bugprone-unsafe-to-allow-exceptions): as tested.
    // NOLINTNEXTLINE(performance-noexcept-move-constructor): as tested.
    Throwing(Throwing&& other) noexcept(false) : moves(other.moves + 1) {}
    // NOLINTEND(bugprone-exception-escape,bugprone-unsafe-to-allow-exceptions)
    Throwing(const Throwing&) = delete;
    Throwing& operator=(const Throwing&) = delete;
    Throwing& operator=(Throwing&&) = delete;
    ~Throwing() = default;
    int operator()() const { return moves; }
    int moves = 0;
  };
  UniqueFunction<int()> first = Throwing();
  const int before = first();

  UniqueFunction<int()> second = std::move(first);

  EXPECT_EQ(second(), before);
}

TEST(UniqueFunction, KeepsTheAlignmentOfWhatItHolds) {
  struct alignas(64) Aligned {
    const void* operator()() const { return this; }
  };
  UniqueFunction<const void*()> function = Aligned();

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(function()) % 64, 0U);
}

}  // namespace
}  // namespace tinker::unique_function_test
