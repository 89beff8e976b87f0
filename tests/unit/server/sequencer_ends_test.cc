#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "unit/server/sequencer_support.h"

namespace tinker::server::sequencer_ends_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

TEST_F(SequencerTest, ClosingEndsWhatWaitsAndRefusesWhatComes) {
  const Error reason{.code = ErrorCode::closed, .message = "unloaded"};
  submit(pass(3));
  submit(request(std::nullopt, Kind::pass, "x"));

  sequencer_->close(reason);

  EXPECT_THAT(started_, ElementsAre("p3", "x"));
  EXPECT_EQ(failed_["p3"], reason);
  EXPECT_EQ(failed_["x"], reason);
  EXPECT_THAT(sequencer_->submit(pass(1)), IsError(ErrorCode::closed, "unloaded"));
  loop_->advance(1min);
  EXPECT_EQ(started_.size(), 2U);
}

TEST_F(SequencerTest, ItsEndEndsWhatWaits) {
  submit(pass(2));

  sequencer_.reset();
  loop_->advance(1min);

  EXPECT_THAT(started_, ElementsAre("p2"));
  EXPECT_EQ(failed_["p2"].code, ErrorCode::closed);
}

TEST_F(SequencerTest, AStartMaySubmit) {
  auto first = pass(1);
  first.start = [this](std::optional<Error>) {
    started_.emplace_back("p1");
    submit(barrier(4));  // releases nothing that is not released already
    submit(pass(3));
  };
  submit(pass(2));

  submit(std::move(first));

  EXPECT_THAT(started_, ElementsAre("p1", "p2", "b4", "p3"));
  EXPECT_TRUE(failed_.contains("p3"));
}

TEST_F(SequencerTest, AStartMayClose) {
  auto first = pass(1);
  first.start = [this](std::optional<Error>) {
    sequencer_->close({.code = ErrorCode::closed, .message = "unloaded"});
  };
  submit(pass(2));
  submit(pass(4));

  submit(std::move(first));

  EXPECT_THAT(started_, ElementsAre("p2", "p4"));
  EXPECT_TRUE(failed_.contains("p2") && failed_.contains("p4"));
}

TEST_F(SequencerTest, AStartMayDestroyTheSequencer) {
  auto first = pass(1);
  first.start = [this](std::optional<Error>) { sequencer_.reset(); };
  submit(pass(2));

  EXPECT_THAT(sequencer_->submit(std::move(first)), IsOk());

  EXPECT_THAT(started_, ElementsAre("p2"));
  EXPECT_TRUE(failed_.contains("p2"));
}

TEST_F(SequencerTest, AStartThatWasDueMayDestroyTheSequencer) {
  auto second = pass(2);
  second.start = [this](std::optional<Error>) { sequencer_.reset(); };
  submit(std::move(second));
  submit(pass(3));

  loop_->advance(10s);

  EXPECT_THAT(started_, ElementsAre("p3"));
  EXPECT_EQ(failed_["p3"].code, ErrorCode::closed);
}

// What the official client may send: the chunks of a batch but the first in any order, some of them
// twice, then the first one; steps between batches (BEHAVIOUR R7.2, R7.3, R7.7).
TEST_F(SequencerTest, StartsEveryScriptInOrderOfNumberEachExactlyOnce) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
    sequencer_ = std::make_unique<Sequencer>(loop_, 1, 10s);
    started_.clear();
    std::vector<std::string> expected;
    std::int64_t number = 1;
    for (int batch = 0; batch < 8; ++batch) {
      std::vector<std::int64_t> arrivals;
      const std::int64_t first = number;
      for (const auto last = first + below(6); number <= last; ++number) {
        expected.push_back("p" + std::to_string(number));
        if (number == first) continue;
        arrivals.insert(arrivals.end(), below(2) == 0 ? 1U : 2U, number);
      }
      std::ranges::shuffle(arrivals, random);
      arrivals.push_back(first);
      for (const auto chunk : arrivals) {
        submit(pass(chunk));
        loop_->advance(std::chrono::milliseconds(below(300)));
      }
      if (below(2) == 0) continue;
      expected.push_back("b" + std::to_string(number));
      submit(barrier(number++));
    }

    ASSERT_THAT(started_, ElementsAreArray(expected)) << "seed " << seed;
    ASSERT_THAT(failed_, IsEmpty()) << "seed " << seed;
  }
}

// Any order at all, with numbers missing: what starts without an error does so in order of number,
// as long as nobody waited too long; everything starts once, with or without one.
TEST_F(SequencerTest, StartsEachExactlyOnceWhateverTheOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    sequencer_ = std::make_unique<Sequencer>(loop_, 1, 10s);
    started_.clear();
    failed_.clear();
    std::vector<std::pair<std::int64_t, Kind>> script;
    for (std::int64_t number = 1; number <= 30; ++number) {
      if (random() % 8 == 0) continue;
      script.emplace_back(number, random() % 5 == 0 ? Kind::barrier : Kind::pass);
    }
    std::ranges::shuffle(script, random);
    for (const auto& [number, kind] : script) submit(request(number, kind, std::to_string(number)));
    loop_->advance(10s);

    std::vector<std::int64_t> ran;
    for (const auto& id : started_) {
      if (!failed_.contains(id)) ran.push_back(std::stoll(id));
    }
    ASSERT_TRUE(std::ranges::is_sorted(ran)) << "seed " << seed;
    ASSERT_EQ(started_.size(), script.size()) << "seed " << seed;
    std::ranges::sort(started_);
    ASSERT_EQ(std::ranges::adjacent_find(started_), started_.end()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tinker::server::sequencer_ends_test
