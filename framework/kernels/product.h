#pragma once

#include <cstdint>

namespace diptych::kernels {

/// Columns of a product are computed in whole vectors of this length.
inline constexpr std::int64_t kProductStep = 16;

/// c[i][j] = (accumulate ? c[i][j] : 0) + the sum over k of rows[i][at[k]] * b[k][j]. The left side is read in place;
/// the right side and c have room for whole vectors. Each sum is one chain of fma in the order of k, whatever the tile,
/// so the bits are the same on every instruction set.
template <class T>
struct ProductCall {
  std::int64_t row_count;
  std::int64_t columns;
  std::int64_t depth;
  const T* const* rows;
  const std::int64_t* at;
  const T* const* b;
  T* c;
  std::int64_t c_pitch;
  bool accumulate;
};

/// A pitch with that room for `columns`: an odd number of vectors, so that rows spread over the sets of a cache.
constexpr std::int64_t product_pitch(std::int64_t columns) {
  return (((columns + kProductStep - 1) / kProductStep + 1) | 1) * kProductStep;
}

template <class T>
void product(const ProductCall<T>& call);

}  // namespace diptych::kernels
