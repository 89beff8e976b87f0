#include "engine/page_pool.h"

#include <numeric>

#include <gmock/gmock.h>

#include "unit/engine/small_model.h"

namespace tinker::engine::page_pool_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Optional;
using AdapterPointer = std::shared_ptr<const Adapter>;

constexpr auto kNobody = std::nullopt;

PagePool pool_of(std::size_t pages) {
  const auto& kernels = kernels_of(CpuPath::scalar, Precision::f32);
  return {KvLayout(small_config(), kernels, small_config().layers), pages};
}

/// As many tokens, counted from `first`.
std::vector<std::int32_t> tokens(std::int32_t first, std::size_t count = kKeyBlock) {
  std::vector<std::int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// A new page that is remembered to hold `held`, still in use.
PageId hold(PagePool& pool,
            const std::vector<std::int32_t>& held,
            std::optional<PageId> before = {},
            const AdapterPointer& adapter = {}) {
  const auto page = pool.take().value();
  pool.remember(page, before, adapter, held);
  return page;
}

/// What `find` finds, without keeping it.
std::vector<PageId> look(PagePool& pool,
                         const std::vector<std::int32_t>& wanted,
                         const AdapterPointer& adapter = {}) {
  auto out = pool.find(adapter, wanted);
  for (const auto page : out) pool.release(page);
  return out;
}

/// Adapters that differ in nothing but who they are.
AdapterPointer some_adapter() {
  ThreadPool threads(1);
  const auto model = small_model(threads);
  return Adapter::create(
      *model, LoraLayout::create(model->config(), {.rank = 1}).value(), 1, threads);
}

// ---- taking and releasing

TEST(PagePool, GivesAsManyPagesAsItsLimit) {
  auto pool = pool_of(2);

  EXPECT_THAT(pool.take(), Optional(Eq(0U)));
  EXPECT_THAT(pool.take(), Optional(Eq(1U)));
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_EQ(pool.limit(), 2);
}

TEST(PagePool, GivesReleasedPagesAgain) {
  auto pool = pool_of(1);
  const auto page = pool.take().value();

  pool.release(page);

  EXPECT_EQ(pool.take(), page);
}

TEST(PagePool, GivesEachPageMemoryOfItsOwn) {
  auto pool = pool_of(2);
  const auto layout = KvLayout(small_config(), kernels_of(CpuPath::scalar, Precision::f32), 2);
  const auto* first = pool.data(pool.take().value());

  const auto* second = pool.data(pool.take().value());

  EXPECT_GE(static_cast<std::size_t>(std::abs(second - first)), layout.page_bytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 64, 0);
}

TEST(PagePool, KeepsAPageUntilItsLastUserIsGone) {
  auto pool = pool_of(1);
  const auto page = pool.take().value();
  pool.share(page);

  pool.release(page);
  EXPECT_EQ(pool.take(), std::nullopt);

  pool.release(page);
  EXPECT_EQ(pool.take(), page);
}

TEST(PagePool, CountsPagesThatHaveUsers) {
  auto pool = pool_of(3);
  const auto page = hold(pool, tokens(0));
  EXPECT_EQ(pool.in_use(), 1);
  pool.share(page);
  EXPECT_EQ(pool.in_use(), 1);
  pool.release(page);
  pool.release(page);
  EXPECT_EQ(pool.in_use(), 0);

  pool.find(nullptr, tokens(0));

  EXPECT_EQ(pool.in_use(), 1);
}

// ---- remembering and finding

TEST(PagePool, FindsWhatItRemembers) {
  auto pool = pool_of(3);
  const auto first = hold(pool, tokens(0));
  const auto second = hold(pool, tokens(32), first);

  EXPECT_THAT(look(pool, tokens(0, 64)), ElementsAre(first, second));
}

TEST(PagePool, FindsWhatItsSequencesHaveLeft) {
  auto pool = pool_of(3);
  const auto first = hold(pool, tokens(0));
  const auto second = hold(pool, tokens(32), first);
  pool.release(first);
  pool.release(second);

  EXPECT_THAT(look(pool, tokens(0, 64)), ElementsAre(first, second));
}

TEST(PagePool, FindsWholePagesOnly) {
  auto pool = pool_of(3);
  const auto first = hold(pool, tokens(0));
  const auto second = hold(pool, tokens(32), first);

  EXPECT_THAT(look(pool, tokens(0, 31)), IsEmpty());
  EXPECT_THAT(look(pool, tokens(0, 63)), ElementsAre(first));
  EXPECT_THAT(look(pool, tokens(0, 90)), ElementsAre(first, second));
}

TEST(PagePool, FindsTheSameBeginningOnly) {
  auto pool = pool_of(3);
  const auto first = hold(pool, tokens(0));
  hold(pool, tokens(32), first);
  auto other_end = tokens(0, 64);
  other_end.back() = 7;
  auto other_beginning = tokens(0, 64);
  other_beginning.front() = 7;

  EXPECT_THAT(look(pool, other_end), ElementsAre(first));
  EXPECT_THAT(look(pool, other_beginning), IsEmpty());
  EXPECT_THAT(look(pool, tokens(32)), IsEmpty());
}

TEST(PagePool, FindsPagesOfTheSameAdapterOnly) {
  auto pool = pool_of(3);
  const auto one = some_adapter();
  const auto other = some_adapter();
  const auto plain = hold(pool, tokens(0));
  const auto adapted = hold(pool, tokens(0), kNobody, one);

  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(plain));
  EXPECT_THAT(look(pool, tokens(0), one), ElementsAre(adapted));
  EXPECT_THAT(look(pool, tokens(0), other), IsEmpty());
}

TEST(PagePool, RemembersTheFirstOfEqualPages) {
  auto pool = pool_of(2);
  const auto first = hold(pool, tokens(0));

  const auto second = hold(pool, tokens(0));

  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(first));
  pool.release(second);
  EXPECT_EQ(pool.take(), second);
}

TEST(PagePool, RemembersWhatAPageHeldFirst) {
  auto pool = pool_of(1);
  const auto page = hold(pool, tokens(0));

  pool.remember(page, kNobody, nullptr, tokens(100));

  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(page));
  EXPECT_THAT(look(pool, tokens(100)), IsEmpty());
}

TEST(PagePool, DoesNotRememberWhatFollowsSomethingUnknown) {
  auto pool = pool_of(2);
  const auto unknown = pool.take().value();

  const auto page = hold(pool, tokens(0), unknown);

  EXPECT_THAT(look(pool, tokens(0)), IsEmpty());
  pool.release(page);
  EXPECT_EQ(pool.take(), page);
}

// ---- eviction

TEST(PagePool, ForgetsTheLongestUnusedFirst) {
  auto pool = pool_of(3);
  const std::vector pages = {
      hold(pool, tokens(0)), hold(pool, tokens(100)), hold(pool, tokens(200))};
  for (const auto page : pages) pool.release(page);
  look(pool, tokens(0));

  EXPECT_EQ(pool.take(), pages[1]);
  EXPECT_EQ(pool.take(), pages[2]);
  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(pages[0]));
  EXPECT_EQ(pool.take(), pages[0]);
  EXPECT_THAT(look(pool, tokens(0)), IsEmpty());
}

TEST(PagePool, ForgetsNothingWhileThereIsRoom) {
  auto pool = pool_of(2);
  pool.release(hold(pool, tokens(0)));

  const auto other = pool.take();

  EXPECT_THAT(other, Optional(Eq(1U)));
  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(0));
}

TEST(PagePool, ForgetsNoPageInUse) {
  auto pool = pool_of(2);
  const auto used = hold(pool, tokens(0));
  pool.release(used);
  pool.find(nullptr, tokens(0));
  pool.release(hold(pool, tokens(100)));

  EXPECT_NE(pool.take(), used);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_THAT(look(pool, tokens(0)), ElementsAre(used));
}

TEST(PagePool, DoesNotFindWhatFollowsSomethingForgotten) {
  auto pool = pool_of(2);
  const auto first = hold(pool, tokens(0));
  const auto second = hold(pool, tokens(32), first);
  pool.release(first);
  pool.release(second);

  EXPECT_EQ(pool.take(), first);

  EXPECT_THAT(look(pool, tokens(0, 64)), IsEmpty());
}

TEST(PagePool, FindsWhatFollowsOnceTheBeginningIsBack) {
  auto pool = pool_of(2);
  const auto first = hold(pool, tokens(0));
  const auto second = hold(pool, tokens(32), first);
  pool.release(first);
  pool.release(second);

  const auto again = hold(pool, tokens(0));

  EXPECT_THAT(look(pool, tokens(0, 64)), ElementsAre(again, second));
}

// ---- adapters that are gone

/// Adapters at one address, one after the other.
struct SamePlace {
  AdapterPointer place = some_adapter();
  [[nodiscard]] AdapterPointer next() const { return {std::make_shared<int>(), place.get()}; }
};

TEST(PagePool, DoesNotTakeAnAdapterForAnotherAtItsAddress) {
  const SamePlace place;
  auto pool = pool_of(2);
  auto gone = place.next();
  hold(pool, tokens(0), kNobody, gone);
  gone.reset();

  EXPECT_THAT(look(pool, tokens(0), place.next()), IsEmpty());
}

TEST(PagePool, RemembersAnAdapterAtTheAddressOfOneThatIsGone) {
  const SamePlace place;
  auto pool = pool_of(2);
  auto gone = place.next();
  const auto old = hold(pool, tokens(0), kNobody, gone);
  pool.release(old);
  gone.reset();
  const auto here = place.next();

  const auto page = hold(pool, tokens(0), kNobody, here);

  EXPECT_THAT(look(pool, tokens(0), here), ElementsAre(page));
  EXPECT_EQ(pool.take(), old);
}

}  // namespace
}  // namespace tinker::engine::page_pool_test
