#pragma once

#include <cstdint>
#include <limits>

#include "framework/kernels/isa.h"

namespace diptych::kernels {

/// The largest of `n` dense elements, NaN if any is; -infinity for none. A maximum doesn't depend on the order, so this
/// one needs no fixed tree: more lanes hide the latency, and NaN is looked for beside them, not in their chain.
template <class T>
DIPTYCH_INLINE T row_max(const T* data, std::int64_t n) {
  constexpr int kWide = 32;
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  T lanes[kWide];
  for (T& lane : lanes) {
    lane = kLeast;
  }
  int nan = 0;
  std::int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    for (int lane = 0; lane < kWide; ++lane) {
      const T x = data[i + lane];
      lanes[lane] = x > lanes[lane] ? x : lanes[lane];
      nan |= static_cast<int>(x != x);
    }
  }
  T rest = kLeast;
  for (; i < n; ++i) {
    rest = data[i] > rest ? data[i] : rest;
    nan |= static_cast<int>(data[i] != data[i]);
  }
  for (int half = kWide / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
    }
  }
  const T largest = lanes[0] > rest ? lanes[0] : rest;
  return nan != 0 ? std::numeric_limits<T>::quiet_NaN() : largest;
}

}  // namespace diptych::kernels
