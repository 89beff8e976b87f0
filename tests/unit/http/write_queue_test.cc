#include "http/write_queue.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::http::write_queue_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

/// A queue into memory; from `fails_from` on the disk is full.
struct WriteQueueTest : ::testing::Test {
  Result<void> drain() const {
    const auto& core = time.runtime().core();
    return core->spawn(core->scope(), WriteQueue::drain(queue)).get();
  }
  Result<void> write(std::uint64_t offset, std::string_view bytes) {
    if (offset >= fails_from) return Error{.code = ErrorCode::io_error, .message = "disk full"};
    written.emplace_back(offset, bytes.size());
    return {};
  }

  testing::VirtualRuntime time;
  std::uint64_t fails_from = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, std::size_t>> written;
  std::shared_ptr<WriteQueue> queue = std::make_shared<WriteQueue>(
      time.runtime().core(),
      [this](std::uint64_t offset, std::string_view bytes) { return write(offset, bytes); });
};

TEST_F(WriteQueueTest, WritesInLargePiecesAndInOrder) {
  queue->seek(10);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(queue->add(std::string(kMebibyte / 2, 'x')), IsOk());
  EXPECT_THAT(queue->add("end"), IsOk());
  EXPECT_THAT(drain(), IsOk());

  EXPECT_THAT(written,
              ElementsAre(Pair(10, kMebibyte),
                          Pair(10 + kMebibyte, kMebibyte),
                          Pair(10 + 2 * kMebibyte, kMebibyte / 2 + 3)));
  EXPECT_EQ(queue->end(), 10 + 5 * kMebibyte / 2 + 3);
}

TEST_F(WriteQueueTest, HasRoomForABoundedAmount) {
  while (queue->has_room()) EXPECT_THAT(queue->add(std::string(kMebibyte, 'x')), IsOk());
  EXPECT_EQ(queue->end(), 4 * kMebibyte);
  time.run_ready();
  EXPECT_TRUE(queue->has_room());
}

TEST_F(WriteQueueTest, WritesNothingBehindAnError) {
  fails_from = kMebibyte;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(queue->add(std::string(kMebibyte, 'x')), IsOk());
  time.run_ready();
  EXPECT_THAT(queue->add("x"), IsError(ErrorCode::io_error, HasSubstr("disk full")));
  EXPECT_THAT(drain(), IsError(ErrorCode::io_error, HasSubstr("disk full")));
  EXPECT_THAT(written, ElementsAre(Pair(0, kMebibyte)));
}

TEST_F(WriteQueueTest, HasNothingToWaitForWhenNothingCame) {
  EXPECT_THAT(drain(), IsOk());
}

}  // namespace
}  // namespace tinker::http::write_queue_test
