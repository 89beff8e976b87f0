#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu.h"

/// The inner loops of the engine. They are written once, over vectors of sixteen floats, and
/// compiled for each instruction set (`kernels/*.cc`); which ones run is chosen when the program
/// starts.
///
/// The order of every sum is fixed by the operands alone, and every product that is added is fused.
/// So a result does not depend on the rows beside it or on the number of threads, and in f32 it has
/// the same bits on every path.
///
/// "Element" is the type in which products are computed: float or bf16, by `Precision`. Pointers to
/// elements are `void*` here, and arrays are pointers with counts: the files that use these are
/// compiled for instructions the machine may not have, and must not instantiate what others use.
namespace tinker::engine {

/// Keys of one block of attention, and tokens of one page of the cache.
inline constexpr std::size_t kKeyBlock = 32;
inline constexpr std::size_t kLanes = 16;
/// Rows that attention's scratch has room for.
inline constexpr std::size_t kAttentionRows = 32;
/// Columns of a panel of packed weights; the last one of a matrix may have 16 or 32.
inline constexpr std::size_t kPanelColumns = 48;

enum class Precision : std::uint8_t { f32, bf16 };

/// Where the inputs of a product lie. a: (rows, k), of left elements. A panel is (depth / group,
/// width, group); of its depth, `k` counts from `first_k` on.
struct Segment {
  const void* a = nullptr;
  std::size_t a_stride = 0;      ///< In elements.
  const void* panels = nullptr;  ///< One after another.
  std::size_t depth = 0;
  std::size_t first_k = 0;
  std::size_t k = 0;  ///< A multiple of the step, as `first_k` and `depth` are.
};

enum class Output : std::uint8_t {
  store,           ///< c = sum
  add,             ///< c = c + sum
  store_elements,  ///< c = sum, rounded to elements
};

/// c[row][column] = sum over the segments, in order, of a[row] . panel[column], plus the bias.
/// Panels have `kPanelColumns` columns, but for the last one, which has as many lanes as it needs.
struct PanelProduct {
  const Segment* segments = nullptr;
  std::size_t segment_count = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  void* c = nullptr;
  std::size_t c_stride = 0;
  Output output = Output::store;
  const float* bias = nullptr;  ///< (columns), or none.
};

/// g[j][n] += sum over rows t of u[t][j] x[t][n]: a chain that goes on from what g holds.
/// u: (rows / step, rank, step) of left elements, as `pack_rows` writes it  x: (rows, columns)  g:
/// (rank, columns)
struct OuterProduct {
  const void* u = nullptr;
  const void* x = nullptr;
  std::size_t x_stride = 0;
  std::size_t rows = 0;
  std::size_t rank = 0;
  std::size_t columns = 0;
  float* g = nullptr;
  std::size_t g_stride = 0;
};

/// One query of one head: it sees the keys before `limit`.
struct QueryRow {
  const void* q = nullptr;  ///< (head_dim)
  void* out = nullptr;      ///< (head_dim)
  float* lse = nullptr;     ///< log of the sum of exponentials of its scores
  std::size_t limit = 0;
};

/// Queries that look at the same keys and values. A block of keys is (head_dim / group, kKeyBlock,
/// group), with zeros up to a multiple of the step; one of values is (kKeyBlock / group,
/// value_stride, group).
struct AttentionForward {
  const QueryRow* rows = nullptr;  ///< Sorted by their limits.
  std::size_t row_count = 0;
  const void* const* key_blocks = nullptr;
  const void* const* value_blocks = nullptr;
  std::size_t head_dim = 0;
  std::size_t value_stride = 0;  ///< `head_dim`, rounded up to lanes.
  float scale = 0;
  float* scratch = nullptr;  ///< `attention_scratch` floats, at a cache line.
};

/// Queries of one sequence that look at the same keys and values, with what came back for them.
struct BackwardRow {
  const void* q = nullptr;
  const void* out = nullptr;
  const void* d_out = nullptr;
  float* d_q = nullptr;  ///< Written: (head_dim)
  float lse = 0;
  std::size_t limit = 0;
};

struct AttentionBackward {
  const BackwardRow* rows = nullptr;  ///< Sorted by their limits.
  std::size_t row_count = 0;
  const void* const* key_blocks = nullptr;
  const void* const* value_blocks = nullptr;
  std::size_t keys = 0;
  /// Keys whose gradients were begun by a call for the rows before these, which goes on here; a
  /// multiple of `kKeyBlock`.
  std::size_t begun_keys = 0;
  float* d_k = nullptr;  ///< Written: (keys, head_dim), rows `d_kv_stride` apart.
  float* d_v = nullptr;
  std::size_t d_kv_stride = 0;
  std::size_t head_dim = 0;
  std::size_t value_stride = 0;
  float scale = 0;
  float* scratch = nullptr;  ///< `attention_backward_scratch` floats, at a cache line.
};

/// The largest of some logits and the sum of exp(logit - largest).
struct SoftmaxPart {
  float max = 0;
  float sum = 0;
};

struct AdamStep {
  float learning_rate = 0;
  float beta2 = 0;
  float rest1 = 0;  ///< 1 - beta1
  float rest2 = 0;  ///< 1 - beta2, of which a float beta2 would leave few digits
  float eps = 0;
  float decay = 0;        ///< learning rate times weight decay
  float correction1 = 0;  ///< 1 - beta1^step
  float correction2 = 0;  ///< square root of 1 - beta2^step
  float gradient_scale = 1;
};

/// Functions of one path for one precision. All take rows one after another.
struct Kernels {
  CpuPath path = CpuPath::scalar;
  Precision precision = Precision::f32;
  std::size_t element_bytes = 4;
  /// Of an element of the left side of `product` and `outer_product`: where bf16 has no
  /// instructions, those are floats that bf16 has, too.
  std::size_t left_bytes = 4;
  std::size_t group = 1;  ///< Neighbours in k that a panel keeps together.
  std::size_t step = 1;   ///< What k is filled up to a multiple of, with zeros.
  /// What is best multiplied at once: so many rows with so many panels.
  std::size_t row_block = 1;
  std::size_t panel_block = 1;

  void (*product)(const PanelProduct&) = nullptr;
  void (*outer_product)(const OuterProduct&) = nullptr;
  /// out = scale * u, rounded, with zeros behind the last row, for `outer_product`.
  /// u: (rows, rank), `stride` elements apart  out: (rows / step, rank, step)
  void (*pack_rows)(const void* u,
                    std::size_t stride,
                    std::size_t rows,
                    std::size_t rank,
                    float scale,
                    void* out) = nullptr;
  /// out: (n / group, out_row, group) = the transpose of in: (k / group, in_row, group), of which
  /// the first k and n count.
  void (*transpose)(const void* in,
                    std::size_t in_row,
                    std::size_t k,
                    std::size_t n,
                    void* out,
                    std::size_t out_row) = nullptr;

  /// out = x / rms(x) * gain; returns 1 / rms(x).
  float (*rms_norm)(const float* x, const float* gain, std::size_t n, float eps, void* out) =
      nullptr;
  /// d_x += what d_y gives for y = rms_norm(x).
  void (*rms_norm_backward)(const float* d_y,
                            const float* x,
                            const float* gain,
                            float inverse_rms,
                            std::size_t n,
                            float* d_x) = nullptr;
  /// Turns each pair (x[i], x[i + n/2]) by its angle; `sin` may be negated to turn back.
  void (*rotate)(const float* x, const float* cos, const float* sin, std::size_t n, float* out) =
      nullptr;
  /// out = silu(gate) * up, all elements.
  void (*silu_product)(const void* gate, const void* up, std::size_t n, void* out) = nullptr;
  void (*silu_product_backward)(const float* d_out,
                                const void* gate,
                                const void* up,
                                std::size_t n,
                                void* d_gate,
                                void* d_up) = nullptr;
  void (*attention)(const AttentionForward&) = nullptr;
  void (*attention_backward)(const AttentionBackward&) = nullptr;

  SoftmaxPart (*softmax_part)(const float* logits, std::size_t n, float scale) = nullptr;
  /// logits[i] = factor * exp(logits[i] - lse)
  void (*softmax_values)(float* logits, std::size_t n, float lse, float factor) = nullptr;
  void (*to_elements)(const float* x, std::size_t n, void* out) = nullptr;
  void (*from_elements)(const void* x, std::size_t n, float* out) = nullptr;
  /// y += x
  void (*add)(const float* x, std::size_t n, float* y) = nullptr;
  float (*sum_of_squares)(const float* x, std::size_t n) = nullptr;
  void (*adam)(const AdamStep& step, std::size_t n, const float* g, float* x, float* m, float* v) =
      nullptr;
};

/// Floats of scratch that a call of `attention` or `attention_backward` needs.
std::size_t attention_scratch(std::size_t head_dim);
std::size_t attention_backward_scratch(std::size_t head_dim, std::size_t keys);

/// The functions of a path that this program was compiled with and this machine has
/// (`cpu_paths()`).
const Kernels& kernels_of(CpuPath path, Precision precision);

}  // namespace tinker::engine
