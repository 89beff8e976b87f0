// All kernels over the `Lanes` of whoever includes this, and the table of them.
// Included by kernels/*.cc in its anonymous namespace, after lanes_*.h.

#include "engine/kernels/attention.h"
#include "engine/kernels/lanes.h"
#include "engine/kernels/products.h"
#include "engine/kernels/rows.h"
#include "engine/kernels/transpose.h"

template <typename E>
constexpr Kernels make_kernels(CpuPath path) {
  constexpr bool kIsBf16 = sizeof(E) == 2;
  return {
      .path = path,
      .precision = kIsBf16 ? Precision::bf16 : Precision::f32,
      .element_bytes = sizeof(E),
      .left_bytes = sizeof(Left<E>),
      .group = kGroup<E>,
      .step = kStep<E>,
      .row_block = kRowBlock<E>,
      .panel_block = kIsBf16 ? 8 : 1,
      .product = product<E>,
      .outer_product = outer_product<E>,
      .pack_rows = pack_rows<E>,
      .transpose = transpose<E>,
      .rms_norm = rms_norm<E>,
      .rms_norm_backward = rms_norm_backward,
      .rotate = rotate,
      .silu_product = silu_product<E>,
      .silu_product_backward = silu_product_backward<E>,
      .attention = attention<E>,
      .attention_backward = attention_backward<E>,
      .softmax_part = softmax_part,
      .softmax_values = softmax_values,
      .to_elements = to_elements<E>,
      .from_elements = from_elements<E>,
      .add = add,
      .sum_of_squares = sum_of_squares,
      .adam = adam,
  };
}
