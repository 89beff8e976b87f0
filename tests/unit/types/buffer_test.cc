#include "tinker/types/buffer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::buffer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Floats that start at an odd address, as in the middle of a received message.
class Unaligned {
 public:
  explicit Unaligned(const std::vector<float>& values)
      : storage_(std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float) + kShift)) {
    std::memcpy(storage_->data() + kShift, values.data(), values.size() * sizeof(float));
  }

  [[nodiscard]] Buffer<float> view() const {
    return Buffer<float>::view(std::span(*storage_).subspan(kShift), storage_);
  }

 private:
  static constexpr std::size_t kShift = 1;  // vectors start at an even address
  std::shared_ptr<std::vector<std::byte>> storage_;
};

TEST(Buffer, IsEmptyByDefault) {
  const Buffer<float> buffer;

  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_THAT(buffer, IsEmpty());
  EXPECT_THAT(buffer.to_vector(), IsEmpty());
}

TEST(Buffer, HoldsTheNumbersOfAVector) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{1, 2, 3};

  EXPECT_THAT(buffer, ElementsAre(1, 2, 3));
}

TEST(Buffer, TakesAVectorOverWithoutCopying) {
  std::vector<float> values = {1.0F, 2.0F};
  const std::byte* memory = std::as_bytes(std::span(values)).data();

  const Buffer<float> buffer = std::move(values);

  EXPECT_EQ(buffer.bytes().data(), memory);
}

TEST(Buffer, SharesItsMemoryWithCopies) {
  const Buffer<float> buffer = std::vector<float>{1.0F, 2.0F};

  const Buffer<float> copy = buffer;  // NOLINT(performance-unnecessary-copy-initialization)

  EXPECT_EQ(copy.bytes().data(), buffer.bytes().data());
}

TEST(Buffer, KeepsItsMemoryAliveForCopies) {
  auto buffer = std::make_unique<Buffer<float>>(std::vector<float>{1.0F, 2.0F});
  const Buffer<float> copy = *buffer;

  buffer.reset();

  EXPECT_THAT(copy, ElementsAre(1.0F, 2.0F));
}

TEST(Buffer, BorrowsTheCallersMemory) {
  const std::vector<float> values = {1.0F, 2.0F};

  const auto buffer = Buffer<float>::borrow(values);

  EXPECT_EQ(buffer.bytes().data(), std::as_bytes(std::span(values)).data());
  EXPECT_EQ(buffer.size(), 2U);
}

TEST(Buffer, ViewsBytesInPlace) {
  const auto owner = std::make_shared<const std::vector<float>>(std::vector{1.0F, 2.0F});
  const auto bytes = std::as_bytes(std::span(*owner));

  const auto buffer = Buffer<float>::view(bytes, owner);

  EXPECT_EQ(buffer.bytes().data(), bytes.data());
  EXPECT_THAT(buffer, ElementsAre(1.0F, 2.0F));
}

TEST(Buffer, KeepsTheOwnerOfAViewAliveAsLongAsNeeded) {
  auto owner = std::make_shared<const std::vector<float>>(std::vector{1.0F});
  const std::weak_ptr<const std::vector<float>> watch = owner;
  auto buffer =
      std::make_unique<Buffer<float>>(Buffer<float>::view(std::as_bytes(std::span(*owner)), owner));

  owner.reset();
  const bool alive_with_buffer = !watch.expired();
  buffer.reset();

  EXPECT_TRUE(alive_with_buffer);
  EXPECT_TRUE(watch.expired());
}

TEST(BufferDeathTest, DoesNotViewHalfAnElement) {
  const std::vector<std::byte> bytes(6);

  EXPECT_DEATH((void)Buffer<float>::view(bytes, nullptr), "tinker check failed");
}

// ---- alignment -------------------------------------------------------------------------------

TEST(Buffer, ReadsUnalignedMemoryByIndex) {
  const auto buffer = Unaligned({1.5F, -2.5F, 3.5F}).view();

  EXPECT_EQ(buffer[0], 1.5F);
  EXPECT_EQ(buffer[1], -2.5F);
  EXPECT_EQ(buffer[2], 3.5F);
}

TEST(Buffer, ReadsUnalignedMemoryByIterator) {
  const auto buffer = Unaligned({1.5F, -2.5F, 3.5F}).view();

  EXPECT_THAT(buffer, ElementsAre(1.5F, -2.5F, 3.5F));
}

TEST(Buffer, CopiesUnalignedMemoryToAVector) {
  const auto buffer = Unaligned({1.5F, -2.5F}).view();

  EXPECT_THAT(buffer.to_vector(), ElementsAre(1.5F, -2.5F));
}

TEST(Buffer, HasNoSpanOverUnalignedMemory) {
  const auto buffer = Unaligned({1.5F, -2.5F}).view();

  EXPECT_FALSE(buffer.span().has_value());
}

TEST(Buffer, HasASpanOverAlignedMemory) {
  const std::vector<float> values = {1.0F, 2.0F};

  const auto span = Buffer<float>::borrow(values).span();

  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->data(), values.data());
  EXPECT_EQ(span->size(), 2U);
}

TEST(Buffer, HasAnEmptySpanWhenItIsEmpty) {
  const auto span = Buffer<float>().span();

  ASSERT_TRUE(span.has_value());
  EXPECT_TRUE(span->empty());
}

// ---- slices ----------------------------------------------------------------------------------

TEST(BufferSlice, HoldsTheNamedElements) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11, 12, 13};

  EXPECT_THAT(buffer.slice(1, 2), ElementsAre(11, 12));
}

TEST(BufferSlice, SharesTheMemory) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11, 12};

  const auto slice = buffer.slice(1, 2);

  EXPECT_EQ(slice.bytes().data(), buffer.bytes().data() + sizeof(std::int64_t));
}

TEST(BufferSlice, KeepsTheMemoryAlive) {
  auto buffer = std::make_unique<Buffer<std::int64_t>>(std::vector<std::int64_t>{10, 11, 12});
  const auto slice = buffer->slice(2, 1);

  buffer.reset();

  EXPECT_THAT(slice, ElementsAre(12));
}

TEST(BufferSlice, MayBeEverythingOrNothing) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11};

  EXPECT_EQ(buffer.slice(0, 2), buffer);
  EXPECT_THAT(buffer.slice(0, 0), IsEmpty());
  EXPECT_THAT(buffer.slice(2, 0), IsEmpty());
  EXPECT_THAT(Buffer<std::int64_t>().slice(0, 0), IsEmpty());
}

TEST(BufferSliceDeathTest, DoesNotReachBeyondTheEnd) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11};

  EXPECT_DEATH((void)buffer.slice(1, 2), "tinker check failed");
  EXPECT_DEATH((void)buffer.slice(3, 0), "tinker check failed");
  EXPECT_DEATH((void)buffer.slice(1, std::numeric_limits<std::size_t>::max()),
               "tinker check failed");
}

// ---- equality --------------------------------------------------------------------------------

TEST(Buffer, EqualsABufferOfTheSameNumbersElsewhere) {
  const Buffer<float> owned = std::vector<float>{1.5F, -2.5F};

  EXPECT_EQ(owned, Unaligned({1.5F, -2.5F}).view());
}

TEST(Buffer, DiffersByANumberOrByTheLength) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{1, 2};

  EXPECT_NE(buffer, Buffer<std::int64_t>(std::vector<std::int64_t>{1, 3}));
  EXPECT_NE(buffer, Buffer<std::int64_t>(std::vector<std::int64_t>{1}));
  EXPECT_NE(buffer, Buffer<std::int64_t>());
}

TEST(Buffer, ComparesFloatsAsNumbers) {
  const Buffer<float> nan = std::vector<float>{std::nanf("")};

  EXPECT_EQ(Buffer<float>(std::vector<float>{0.0F}), Buffer<float>(std::vector<float>{-0.0F}));
  EXPECT_NE(nan, nan);
}

// ---- iterators -------------------------------------------------------------------------------

TEST(BufferIterator, ModelsRandomAccess) {
  EXPECT_TRUE(std::random_access_iterator<Buffer<float>::Iterator>);
  EXPECT_TRUE(std::ranges::random_access_range<Buffer<float>>);
  EXPECT_TRUE(std::ranges::sized_range<Buffer<float>>);
}

TEST(BufferIterator, WorksWithStandardAlgorithms) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{2, 3, 5, 7, 11};

  EXPECT_EQ(std::accumulate(buffer.begin(), buffer.end(), std::int64_t{0}), 28);
  EXPECT_EQ(std::ranges::find(buffer, 7) - buffer.begin(), 3);
  EXPECT_EQ(*std::ranges::lower_bound(buffer, 6), 7);
  EXPECT_EQ(std::ranges::max(buffer), 11);
  EXPECT_TRUE(std::ranges::is_sorted(buffer));
}

TEST(BufferIterator, FillsAVector) {
  const auto buffer = Unaligned({1.5F, -2.5F}).view();

  const std::vector<float> values(buffer.begin(), buffer.end());

  EXPECT_THAT(values, ElementsAre(1.5F, -2.5F));
}

TEST(BufferIterator, WalksBackwards) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{1, 2, 3};

  const std::vector<std::int64_t> reversed(std::make_reverse_iterator(buffer.end()),
                                           std::make_reverse_iterator(buffer.begin()));

  EXPECT_THAT(reversed, ElementsAre(3, 2, 1));
}

TEST(BufferIterator, StepsByElements) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11, 12};
  auto it = buffer.begin();

  EXPECT_EQ(*it++, 10);
  EXPECT_EQ(*it, 11);
  EXPECT_EQ(*++it, 12);
  EXPECT_EQ(*it--, 12);
  EXPECT_EQ(*--it, 10);
}

TEST(BufferIterator, JumpsByElements) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11, 12};
  const auto first = buffer.begin();

  EXPECT_EQ(first[2], 12);
  EXPECT_EQ(*(first + 1), 11);
  EXPECT_EQ(*(1 + first), 11);
  EXPECT_EQ(*(buffer.end() - 1), 12);
  EXPECT_EQ(buffer.end() - first, 3);
}

TEST(BufferIterator, IsOrdered) {
  const Buffer<std::int64_t> buffer = std::vector<std::int64_t>{10, 11};

  EXPECT_LT(buffer.begin(), buffer.end());
  EXPECT_EQ(buffer.begin() + 2, buffer.end());
}

}  // namespace
}  // namespace tinker::buffer_test
