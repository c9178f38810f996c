#pragma once

#include <cstdint>

#include "framework/core/isa.h"

namespace diptych::kernels {

/// Stores lines of sums, `sums_step` apart, to their destination.
template <class T>
struct FinishRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t width, std::int64_t sums_step, const T* sums, T* out,
                                 std::int64_t row_step, std::int64_t column_step) {
    if (width == row_step && width == sums_step && column_step == 1) {
      width *= rows;
      rows = 1;
    }
    for (std::int64_t row = 0; row < rows; ++row, sums += sums_step, out += row_step) {
      if (column_step == 1) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < width; ++i) {
          out[i] = sums[i];
        }
      } else {
        for (std::int64_t i = 0; i < width; ++i) {
          out[i * column_step] = sums[i];
        }
      }
    }
  }
};

}  // namespace diptych::kernels
