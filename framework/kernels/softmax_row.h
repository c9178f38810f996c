#pragma once

#include "framework/kernels/reduction.h"

/// Passes over one row of a softmax.
namespace diptych::kernels {

namespace detail {

/// a = the larger; a where one isn't a number
struct LargerNumber {
  template <class V>
  DIPTYCH_INLINE static void merge(V& a, const V& b) {
    a = b > a ? b : a;
  }
};

}  // namespace detail

/// What a softmax subtracts: the largest element. If some are NaN it may be any, since their exponentials make the
/// sum NaN; the sign of a zero doesn't matter to exponentials. For bodies of vector_length.h: comparisons of vectors
/// that are longer than the instruction set's become scalars, which take ten times as long.
template <int bytes, class T>
DIPTYCH_INLINE T largest_for_shift(std::int64_t n, const T* row) {
  if (n < 2 * kLanes) {
    return reduce_dense<MaxCombine>(row, n);
  }
  // As vectors: GCC 12 makes scalars of loops over so few lanes.
  constexpr int kWidth = bytes / static_cast<int>(sizeof(T));
  using V = detail::Vector<T, kWidth>;
  constexpr int kVectors = 2 * kLanes / kWidth;
  V largest[kVectors];
  std::memcpy(largest, row, sizeof(largest));
  for (std::int64_t begin = 2 * kLanes; begin < n; begin += 2 * kLanes) {
    const std::int64_t from = begin + 2 * kLanes <= n ? begin : n - 2 * kLanes;  // the last may repeat some
    for (int i = 0; i < kVectors; ++i) {
      V x;
      std::memcpy(&x, row + from + i * kWidth, sizeof(x));
      detail::LargerNumber::merge(largest[i], x);
    }
  }
  for (int i = kVectors / 2; i > 0; i /= 2) {
    for (int k = 0; k < i; ++k) {
      detail::LargerNumber::merge(largest[k], largest[k + i]);
    }
  }
  T lanes[kWidth];
  std::memcpy(lanes, largest, sizeof(lanes));
  return detail::combine_lanes<detail::LargerNumber, T, kWidth>(lanes);
}

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
