#include "unit/engine/missing_memory.h"

#include <cstdlib>
#include <new>

#include <malloc.h>

namespace tinker::engine {
namespace {

thread_local std::size_t calls_made = 0;
thread_local std::size_t first_missing = 0;
thread_local std::size_t end_of_missing = 0;

bool is_missing() {
  const std::size_t call = calls_made++;
  return call >= first_missing && call < end_of_missing;
}

}  // namespace

MissingMemory::MissingMemory(std::size_t after, std::size_t count) noexcept {
  calls_made = 0;
  first_missing = after;
  end_of_missing = after + count;
}

MissingMemory::~MissingMemory() {
  first_missing = 0;
  end_of_missing = 0;
}

std::size_t MissingMemory::calls() noexcept {
  return calls_made;
}

}  // namespace tinker::engine

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return tinker::engine::is_missing() ? nullptr : ::memalign(alignment, size);
}

// The other forms of new and delete come down to these. In AddressSanitizer's library each stands
// alone, and what std::stable_sort takes by the first one comes back by the third.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return tinker::engine::is_missing() ? nullptr : std::malloc(size == 0 ? 1 : size);
}

void* operator new(std::size_t size) {
  void* const out = operator new(size, std::nothrow);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

void operator delete(void* block) noexcept {
  std::free(block);
}

void operator delete(void* block, std::size_t /*size*/) noexcept {
  std::free(block);
}
