#pragma once

#include "framework/kernels/reduction.h"

/// Passes over one row of a softmax.
namespace diptych::kernels {

/// out[i] = exp(in[i] * scale - shift), which is at most 1; 0 below the smallest normal number. Returns the sum. The
/// remaining elements are computed as a whole vector too, in a buffer of their own: one by one, five of them would take
/// as long as fifty.
template <class T>
DIPTYCH_INLINE T exponentials(std::int64_t n, const T* in, T scale, T shift, T* out) {
  const std::int64_t whole = n / kLanes * kLanes;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < whole; ++i) {
    out[i] = math::exp_nonpositive(in[i] * scale - shift);
  }
  if (whole < n) {
    T rest[kLanes] = {};
    for (std::int64_t i = whole; i < n; ++i) {
      rest[i - whole] = in[i];
    }
    for (T& x : rest) {
      x = math::exp_nonpositive(x * scale - shift);
    }
    for (std::int64_t i = whole; i < n; ++i) {
      out[i] = rest[i - whole];
    }
  }
  return reduce_dense<SumCombine>(static_cast<const T*>(out), n);
}

/// Divides exponentials, the largest of which is 1, by their sum. Only one division is needed, since the reciprocal of
/// the sum is a normal number.
template <class T>
DIPTYCH_INLINE void divide_by_sum(std::int64_t n, T total, T* row) {
  const T reciprocal = T(1) / total;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    row[i] = row[i] * reciprocal;
  }
}

}  // namespace diptych::kernels
