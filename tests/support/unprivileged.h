#pragma once

#include <unistd.h>

namespace tinker::testing {

/// While it lives, permissions of files count: root becomes somebody else, others stay who they
/// are.
class Unprivileged {
 public:
  Unprivileged() : was_root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    succeeded_ = !was_root_ || ::seteuid(kNobody) == 0;
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (was_root_ && succeeded_) succeeded_ = ::seteuid(0) == 0;
  }

  [[nodiscard]] bool succeeded() const { return succeeded_; }

 private:
  bool was_root_;
  bool succeeded_ = false;
};

}  // namespace tinker::testing
