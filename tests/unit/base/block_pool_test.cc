#include "base/block_pool.h"

#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::base::block_pool_test {
namespace {

TEST(BlockPool, GivesBlocksOfAnySizeThatDoNotOverlap) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t size = 1; size <= 10'000; size += 61) {
    auto* const block = static_cast<unsigned char*>(allocate_block(size));
    std::memset(block, static_cast<int>(size % 251), size);
    blocks.emplace_back(block, size);
  }

  for (const auto& [block, size] : blocks) {
    EXPECT_EQ(block[0], size % 251);
    EXPECT_EQ(block[size - 1], size % 251);
    free_block(block, size);
  }
}

TEST(BlockPool, GivesABlockToOneAtATime) {
  for (int round = 0; round < 2; ++round) {
    std::set<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.insert(allocate_block(500));
    EXPECT_EQ(blocks.size(), 1000);
    for (void* block : blocks) free_block(block, 500);
  }
}

TEST(BlockPool, TakesBlocksBackOnAnotherThread) {
  std::vector<void*> blocks;
  std::thread maker([&] {
    for (int i = 0; i < 1000; ++i) blocks.push_back(allocate_block(300));
  });
  maker.join();

  for (void* block : blocks) free_block(block, 300);
}

struct AtTheEnd {
  void* block = allocate_block(100);
  ~AtTheEnd() { free_block(block, 100); }
};

TEST(BlockPool, TakesBlocksBackWhileTheThreadEnds) {
  std::thread([] {
    thread_local const AtTheEnd first;
    EXPECT_NE(first.block, nullptr);
    free_block(allocate_block(100), 100);
  }).join();
}

TEST(BlockPool, HoldsSharedObjects) {
  const auto number = std::allocate_shared<int>(BlockAllocator<int>(), 42);

  EXPECT_EQ(*number, 42);
}

}  // namespace
}  // namespace tinker::base::block_pool_test
