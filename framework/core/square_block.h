#pragma once

#include "framework/math/inline.h"

namespace diptych::kernels {

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// `lanes` elements, in a register and wherever they lie in memory.
template <class T, int lanes>
struct Vectors {
  typedef T Vector __attribute__((vector_size(sizeof(T) * lanes)));
  typedef T Loose __attribute__((vector_size(sizeof(T) * lanes), aligned(alignof(T)), may_alias));
};

/// `lanes` vectors of `lanes` elements in registers.
template <class T, int lanes>
struct SquareBlock {
  using Vector = typename Vectors<T, lanes>::Vector;

  Vector rows[lanes];

  /// Interleaving the two halves of the list of rows, as often as the list can be halved, turns it into the columns.
  DIPTYCH_INLINE void transpose() {
#pragma GCC unroll 4
    for (int step = 1; step < lanes; step *= 2) {
      Vector next[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes / 2; ++i) {
        const Vector a = rows[i];
        const Vector b = rows[i + lanes / 2];
        if constexpr (lanes == 16) {
          next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
          next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        } else if constexpr (lanes == 8) {
          next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
          next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        } else if constexpr (lanes == 4) {
          next[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
          next[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        } else {
          next[2 * i] = __builtin_shufflevector(a, b, 0, 2);
          next[2 * i + 1] = __builtin_shufflevector(a, b, 1, 3);
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        rows[i] = next[i];
      }
    }
  }
};

#pragma GCC diagnostic pop

}  // namespace diptych::kernels
