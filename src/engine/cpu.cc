#include "engine/cpu.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tinker::engine {
namespace {

constexpr std::array kNames = {std::string_view("scalar"),
                               std::string_view("avx2"),
                               std::string_view("avx512"),
                               std::string_view("avx512bf16"),
                               std::string_view("amx")};

std::string list(const std::vector<CpuPath>& paths) {
  std::string out;
  for (const auto path : paths) out += (out.empty() ? "" : ", ") + std::string(to_string(path));
  return out;
}

#if defined(__x86_64__)
/// Whether there is AMX for bf16 and the kernel lets this process use it, which must be asked for.
bool has_tiles() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTiles = 1U << 24U;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

std::string_view to_string(CpuPath path) {
  return kNames[static_cast<std::size_t>(path)];
}

std::vector<CpuPath> cpu_paths() {
  std::vector<CpuPath> out = {CpuPath::scalar};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back(CpuPath::avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    out.push_back(CpuPath::avx512);
    if (__builtin_cpu_supports("avx512bf16")) {
      out.push_back(CpuPath::avx512bf16);
      if (has_tiles()) out.push_back(CpuPath::amx);
    }
  }
#endif
  return out;
}

Result<CpuPath> choose_cpu_path(const std::optional<std::string>& name) {
  const auto paths = cpu_paths();
  if (!name) return paths.back();
  const auto found = std::ranges::find(kNames, *name);
  if (found == kNames.end()) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = "no kernels are called '" + *name + "'; this machine has " + list(paths)};
  }
  const auto path = static_cast<CpuPath>(found - kNames.begin());
  if (std::ranges::find(paths, path) == paths.end()) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = "this machine cannot run the kernels '" + *name + "'; it has " + list(paths)};
  }
  return path;
}

#if defined(__x86_64__)
FlushSubnormals::FlushSubnormals() noexcept : before_(_mm_getcsr()) {
  _mm_setcsr(before_ | 0x8040U);
}
FlushSubnormals::~FlushSubnormals() {
  _mm_setcsr(before_);
}
#else
FlushSubnormals::FlushSubnormals() noexcept = default;
FlushSubnormals::~FlushSubnormals() = default;
#endif

}  // namespace tinker::engine
