#include "register_peak.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tinker {
namespace {

using engine::CpuPath;
using engine::Precision;

constexpr int kRounds = 3;

struct Work {
  double flop = 0;
  void (*run)() = nullptr;
};

#if defined(__x86_64__)

// In assembly, so that nothing needs to be compiled for these instructions and nothing is left out.
// Enough sums that none waits for itself.
constexpr long kLoops = 1'000'000;

__attribute__((target("avx2"))) void multiply_add_256() {
  long count = kLoops;
  asm volatile(
      "vxorps %%ymm14, %%ymm14, %%ymm14\n\t"
      "vxorps %%ymm15, %%ymm15, %%ymm15\n\t"
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"
      "vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n\t"
      ".endr\n\t"
      "1:\n\t"
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"
      "vfmadd231ps %%ymm14, %%ymm15, %%ymm\\r\n\t"
      ".endr\n\t"
      "dec %0\n\t"
      "jnz 1b"
      : "+r"(count)
      :
      : "cc",
        "xmm0",
        "xmm1",
        "xmm2",
        "xmm3",
        "xmm4",
        "xmm5",
        "xmm6",
        "xmm7",
        "xmm8",
        "xmm9",
        "xmm10",
        "xmm11",
        "xmm14",
        "xmm15");
}

#define TINKER_LOOP_512(name, instruction)                                                      \
  __attribute__((target("avx512f"))) void name() {                                              \
    long count = kLoops;                                                                        \
    asm volatile(                                                                               \
        "vpxord %%zmm30, %%zmm30, %%zmm30\n\t"                                                  \
        "vpxord %%zmm31, %%zmm31, %%zmm31\n\t"                                                  \
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t"             \
        "vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n\t"                                               \
        ".endr\n\t"                                                                             \
        "1:\n\t"                                                                                \
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n\t" instruction \
        " %%zmm30, %%zmm31, %%zmm\\r\n\t"                                                       \
        ".endr\n\t"                                                                             \
        "dec %0\n\t"                                                                            \
        "jnz 1b"                                                                                \
        : "+r"(count)                                                                           \
        :                                                                                       \
        : "cc",                                                                                 \
          "xmm0",                                                                               \
          "xmm1",                                                                               \
          "xmm2",                                                                               \
          "xmm3",                                                                               \
          "xmm4",                                                                               \
          "xmm5",                                                                               \
          "xmm6",                                                                               \
          "xmm7",                                                                               \
          "xmm8",                                                                               \
          "xmm9",                                                                               \
          "xmm10",                                                                              \
          "xmm11",                                                                              \
          "xmm12",                                                                              \
          "xmm13",                                                                              \
          "xmm14",                                                                              \
          "xmm15",                                                                              \
          "xmm16",                                                                              \
          "xmm17",                                                                              \
          "xmm18",                                                                              \
          "xmm19",                                                                              \
          "xmm20",                                                                              \
          "xmm21",                                                                              \
          "xmm22",                                                                              \
          "xmm23",                                                                              \
          "xmm30",                                                                              \
          "xmm31");                                                                             \
  }
TINKER_LOOP_512(multiply_add_512, "vfmadd231ps")
TINKER_LOOP_512(dot_bf16_512, "vdpbf16ps")
#undef TINKER_LOOP_512

constexpr long kTileLoops = 200'000;

/// Four tiles of 16 x 16 sums, as a product that reads each tile of its inputs twice.
void dot_bf16_tiles() {
  constexpr long kAskForTiles = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  if (::syscall(SYS_arch_prctl, kAskForTiles, kTileData) != 0) return;
  struct alignas(64) Layout {
    std::uint8_t palette = 1;
    std::uint8_t start = 0;
    std::array<std::uint8_t, 14> reserved = {};
    std::array<std::uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
    std::array<std::uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Layout layout;
  long count = kTileLoops;
  asm volatile(
      "ldtilecfg %1\n\t"
      ".irp r, 0,1,2,3,4,5,6,7\n\t"
      "tilezero %%tmm\\r\n\t"
      ".endr\n\t"
      "1:\n\t"
      "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
      "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
      "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
      "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
      "dec %0\n\t"
      "jnz 1b\n\t"
      "tilerelease"
      : "+r"(count)
      : "m"(layout)
      : "cc");
}

Work work_of(const engine::Kernels& kernels) {
  const auto flop = [](long loops, int instructions, int each) {
    return static_cast<double>(loops) * instructions * each;
  };
  const bool has_bf16 = kernels.precision == Precision::bf16;
  switch (kernels.path) {
    case CpuPath::scalar: return {};
    case CpuPath::avx2: return {.flop = flop(kLoops, 12, 16), .run = multiply_add_256};
    case CpuPath::amx:
      if (has_bf16) return {.flop = flop(kTileLoops, 4, 2 * 16 * 16 * 32), .run = dot_bf16_tiles};
      break;
    case CpuPath::avx512bf16:
      if (has_bf16) return {.flop = flop(kLoops, 24, 64), .run = dot_bf16_512};
      break;
    case CpuPath::avx512: break;
  }
  return {.flop = flop(kLoops, 24, 32), .run = multiply_add_512};
}

#else

Work work_of(const engine::Kernels& /*kernels*/) {
  return {};
}

#endif

}  // namespace

double register_peak(const engine::Kernels& kernels, std::size_t threads) {
  const Work work = work_of(kernels);
  if (work.run == nullptr) return 0;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> rates(threads);
    std::vector<std::thread> running;
    running.reserve(threads);
    for (auto& rate : rates) {
      running.emplace_back([&rate, &work] {
        const auto start = std::chrono::steady_clock::now();
        work.run();
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        rate = work.flop / elapsed.count() * 1e-9;
      });
    }
    for (auto& thread : running) thread.join();
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

}  // namespace tinker
