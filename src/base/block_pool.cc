#include "base/block_pool.h"

#include <array>
#include <utility>

#include "tinker/detail/mutex.h"

namespace tinker::base {

namespace {

constexpr std::size_t kStep = 64;
constexpr std::size_t kClasses = 40;  // up to 2560 bytes
constexpr std::size_t kBatch = 32;    // blocks that change hands at once
constexpr std::size_t kMaxSharedBytes = std::size_t{2} << 20U;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsPooled = false;  // a block that is used after its end is to be noticed
#else
constexpr bool kIsPooled = true;
#endif

struct Block {
  Block* next;
  Block* next_batch;  // of the first block of a batch
};

void free_all(Block* first) noexcept {
  while (first != nullptr) ::operator delete(std::exchange(first, first->next));
}

/// What threads have too many of, in batches: one may free what another allocates.
class Shared {
 public:
  /// Never destroyed: a thread may end after everything else.
  static Shared& instance() {
    static auto* const shared = new Shared;
    return *shared;
  }

  Block* take(std::size_t index) noexcept {
    const detail::MutexLock lock(mutex_);
    Block* const first = batches_[index];
    if (first == nullptr) return nullptr;
    batches_[index] = first->next_batch;
    bytes_ -= batch_bytes(index);
    return first;
  }
  /// Frees them when there are enough.
  void put(Block* first, std::size_t index) noexcept {
    {
      const detail::MutexLock lock(mutex_);
      if (bytes_ + batch_bytes(index) <= kMaxSharedBytes) {
        first->next_batch = std::exchange(batches_[index], first);
        bytes_ += batch_bytes(index);
        return;
      }
    }
    free_all(first);
  }

 private:
  static constexpr std::size_t batch_bytes(std::size_t index) {
    return kBatch * (index + 1) * kStep;
  }

  detail::Mutex mutex_;
  std::array<Block*, kClasses> batches_ TINKER_GUARDED_BY(mutex_) = {};
  std::size_t bytes_ TINKER_GUARDED_BY(mutex_) = 0;
};

/// The freed blocks of one thread.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  void* take(std::size_t index) noexcept {
    Class& blocks = classes_[index];
    if (blocks.first == nullptr) {
      blocks.first = Shared::instance().take(index);
      if (blocks.first == nullptr) return nullptr;
      blocks.count = kBatch;
    }
    --blocks.count;
    return std::exchange(blocks.first, blocks.first->next);
  }
  void keep(void* block, std::size_t index) noexcept {
    Class& blocks = classes_[index];
    if (blocks.count == 2 * kBatch) give_batch(blocks, index);
    ++blocks.count;
    blocks.first = ::new (block) Block{.next = blocks.first, .next_batch = nullptr};
  }

 private:
  struct Class {
    Block* first = nullptr;
    std::size_t count = 0;
  };
  static void give_batch(Class& blocks, std::size_t index) noexcept {
    Block* last = blocks.first;
    for (std::size_t i = 1; i < kBatch; ++i) last = last->next;
    Block* const batch = std::exchange(blocks.first, std::exchange(last->next, nullptr));
    blocks.count -= kBatch;
    Shared::instance().put(batch, index);
  }

  std::array<Class, kClasses> classes_ = {};
};

// What is freed on a thread after its pool has gone, as the thread ends, is not kept.
thread_local bool is_pool_gone = false;

Pool::~Pool() {
  is_pool_gone = true;
  for (const Class& blocks : classes_) free_all(blocks.first);
}

Pool* pool() {
  if (!kIsPooled || is_pool_gone) return nullptr;
  static thread_local Pool mine;
  return &mine;
}

}  // namespace

void* allocate_block(std::size_t size) {
  const std::size_t index = (size - 1) / kStep;
  if (index >= kClasses) return ::operator new(size);
  if (Pool* const mine = pool()) {
    if (void* const block = mine->take(index)) return block;
  }
  return ::operator new((index + 1) * kStep);
}

void free_block(void* block, std::size_t size) noexcept {
  const std::size_t index = (size - 1) / kStep;
  Pool* const mine = index < kClasses ? pool() : nullptr;
  if (mine == nullptr) return ::operator delete(block);
  mine->keep(block, index);
}

}  // namespace tinker::base
