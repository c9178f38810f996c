#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/isa.h"

namespace diptych::kernels {

/// out[j * out_pitch + i] = in[i * in_pitch + j] for i < rows, j < columns. Columns of `out` up to the next multiple of
/// 16 may be written too, if the pitch has room for them.
template <class T>
struct Transpose {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t columns, const T* in, std::int64_t in_pitch, T* out,
                                 std::int64_t out_pitch) {
    constexpr std::int64_t kBlock = 16;
    for (std::int64_t i = 0; i < rows; i += kBlock) {
      const std::int64_t height = std::min(kBlock, rows - i);
      for (std::int64_t j = 0; j < columns; ++j) {
        const T* from = in + i * in_pitch + j;
        T* to = out + j * out_pitch + i;
        if (height == kBlock) {
          for (std::int64_t k = 0; k < kBlock; ++k) {
            to[k] = from[k * in_pitch];
          }
        } else {
          for (std::int64_t k = 0; k < height; ++k) {
            to[k] = from[k * in_pitch];
          }
        }
      }
    }
  }
};

}  // namespace diptych::kernels
