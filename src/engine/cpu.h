#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::engine {

/// Instruction sets that the kernels are compiled for, slowest first.
enum class CpuPath : std::uint8_t { scalar, avx2, avx512, avx512bf16, amx };

std::string_view to_string(CpuPath path);

/// Those that this machine has, slowest first.
std::vector<CpuPath> cpu_paths();

/// The path called `name`, as in TINKER_CPU, or the fastest one when nothing is asked for. Fails
/// with `invalid_argument` for unknown names and for what this machine does not have.
Result<CpuPath> choose_cpu_path(const std::optional<std::string>& name);

/// While it lives, numbers too small to be normal count as zero on this thread: what is as small as
/// that does not matter to a model, and costs hundreds of cycles each time.
class FlushSubnormals {
 public:
  FlushSubnormals() noexcept;
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
  ~FlushSubnormals();

 private:
  unsigned before_ = 0;
};

}  // namespace tinker::engine
