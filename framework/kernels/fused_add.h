#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "framework/core/square_block.h"
#include "framework/math/scalar_math.h"

namespace diptych::kernels {

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

/// sum += a * b, one fma per lane. The loop over lanes becomes one instruction.
template <class T, int lanes>
DIPTYCH_INLINE void add_product(const typename Vectors<T, lanes>::Vector& a,
                                const typename Vectors<T, lanes>::Vector& b, typename Vectors<T, lanes>::Vector& sum) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> && lanes == 16) {
    sum = __builtin_ia32_vfmaddps512_mask(a, b, sum, -1, 4);
    return;
  } else if constexpr (std::is_same_v<T, double> && lanes == 8) {
    sum = __builtin_ia32_vfmaddpd512_mask(a, b, sum, -1, 4);
    return;
  } else if constexpr (std::is_same_v<T, float> && lanes == 8) {
    sum = __builtin_ia32_vfmaddps256(a, b, sum);
    return;
  } else if constexpr (std::is_same_v<T, double> && lanes == 4) {
    sum = __builtin_ia32_vfmaddpd256(a, b, sum);
    return;
  }
#endif
  for (int l = 0; l < lanes; ++l) {
    sum[l] = math::fma(a[l], b[l], sum[l]);
  }
}

#pragma GCC diagnostic pop

}  // namespace diptych::kernels
