#pragma once

#include <cstdint>

namespace diptych::kernels {

/// The length of the blocks that a sum of products is made of.
inline constexpr std::int64_t kSumBlock = 256;

/// A matrix where it lies; the steps are in elements.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns;
  std::int64_t row_step, column_step;

  const T* at(std::int64_t row, std::int64_t column) const { return data + row * row_step + column * column_step; }
  Matrix transposed() const { return {data, columns, rows, column_step, row_step}; }
};

/// c[i][j] = start[j] + the sum over k of a[i][k] * b[k][j]; c is dense, `start` may be null. The products of kSumBlock
/// successive k are one chain of fma from zero, and the blocks are added to the start in order: the bits depend on the
/// shape and the elements alone. On one thread.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const T* start, T* c);

}  // namespace diptych::kernels
