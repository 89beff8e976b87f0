// Included by the lanes_*.h of machines without sixteen lanes in a register.
#pragma once

/// Sixteen rows of sixteen words become columns.
inline void transpose_block(const float* in, std::size_t in_row, float* out, std::size_t out_row) {
  for (std::size_t r = 0; r < kLanes; ++r) {
    for (std::size_t c = 0; c < kLanes; ++c)
      __builtin_memcpy(out + c * out_row + r, in + r * in_row + c, sizeof(float));
  }
}
