#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <new>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

// Sanitizers take memory of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TINKER_TEST_CAN_LIMIT_MEMORY 0
#else
#define TINKER_TEST_CAN_LIMIT_MEMORY 1
#endif

namespace tinker::engine {

/// While it lives, the process may take so many bytes more than it has.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    auto limit = before_;
    limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    ::setrlimit(RLIMIT_AS, &limit);
    // What was freed before does not count.
    for (std::size_t size = std::size_t{1} << 24U; size >= kSmall; size /= 2) {
      while (void* const block = std::malloc(size)) taken_ = new (block) Block{taken_};
    }
    limit.rlim_cur += bytes;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() {
    ::setrlimit(RLIMIT_AS, &before_);
    while (taken_ != nullptr) std::free(std::exchange(taken_, taken_->next));
  }

 private:
  static constexpr std::size_t kSmall = std::size_t{1} << 14U;
  struct Block {
    Block* next = nullptr;
  };
  rlimit before_ = {};
  Block* taken_ = nullptr;
};

}  // namespace tinker::engine
