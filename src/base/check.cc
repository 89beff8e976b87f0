#include "tinker/check.h"

#include <cstdio>
#include <cstdlib>

namespace tinker::detail {

void check_failed(const char* condition, const char* file, int line) {
  // The process ends here, so this is the one line the library may print.
  (void)std::fprintf(stderr, "%s:%d: tinker check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tinker::detail
