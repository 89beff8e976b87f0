#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TINKER_ATTRIBUTE_(x) __attribute__((x))
#else
#define TINKER_ATTRIBUTE_(x)
#endif

/// The member may be touched only with that mutex held; clang checks it (`-Wthread-safety`).
#define TINKER_GUARDED_BY(mutex) TINKER_ATTRIBUTE_(guarded_by(mutex))

namespace tinker::detail {

/// `std::mutex` with the annotations that let clang check who holds it.
class TINKER_ATTRIBUTE_(capability("mutex")) Mutex {
 public:
  void lock() TINKER_ATTRIBUTE_(acquire_capability()) { mutex_.lock(); }
  void unlock() TINKER_ATTRIBUTE_(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a `Mutex` for a scope.
class TINKER_ATTRIBUTE_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TINKER_ATTRIBUTE_(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() TINKER_ATTRIBUTE_(release_capability()) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace tinker::detail
