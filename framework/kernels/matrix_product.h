#pragma once

#include <cstdint>

#include "framework/dispatch/call.h"

namespace diptych::kernels {

/// The length of the blocks that a sum of products is made of.
inline constexpr std::int64_t kSumBlock = 256;

/// About what one thread takes, for parallel_for(). For few rows, reading the right side takes longer than computing.
template <class T>
constexpr double nanoseconds_of_product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr double kOfElement = sizeof(T) == sizeof(float) ? 0.015 : 0.03;
  return kOfElement * static_cast<double>(rows < 4 ? 4 : rows) * static_cast<double>(columns) *
         static_cast<double>(depth);
}

/// Elements of a right side that won't be in the second cache before it is read.
inline constexpr std::int64_t kFar = std::int64_t{128} << 10;

/// A matrix where it lies; the steps are in elements.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns;
  std::int64_t row_step, column_step;

  const T* at(std::int64_t row, std::int64_t column) const { return data + row * row_step + column * column_step; }
  Matrix transposed() const { return {data, columns, rows, column_step, row_step}; }
};

/// The right side of products as they read it, packed once for many of them. It doesn't own its memory.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// How many elements `pack` writes.
  static std::int64_t size(std::int64_t rows, std::int64_t columns);
  /// `to` is aligned to a cache line.
  static PackedMatrix pack(const Matrix<T>& from, T* to);
  /// Whether products of the two spend a fiftieth of their time on packing, or on reading what isn't packed
  /// (docs/kernels.md).
  static bool pays_ahead(const Matrix<T>& from, std::int64_t rows_of_left);
  /// What `pack` wrote.
  static PackedMatrix packed(std::int64_t rows, std::int64_t columns, const T* data) { return {rows, columns, data}; }

  /// The upper left part.
  PackedMatrix part(std::int64_t row_count, std::int64_t column_count) const {
    PackedMatrix result = *this;
    result.rows = row_count;
    result.columns = column_count;
    return result;
  }
  /// Row `row`, which is a multiple of kSumBlock, of the columns from `column` on, which is a multiple of `width`.
  const T* at(std::int64_t row, std::int64_t column) const {
    return data_ + (column / width * packed_rows_ + row) * pitch;
  }
  /// Where an element lies, and how many columns from its one on lie in the same panel.
  const T* lies_at(std::int64_t row, std::int64_t column) const {
    const std::int64_t inside = column % width;
    return at(row, column - inside) + inside;
  }
  std::int64_t rest_of_panel(std::int64_t column) const { return width - column % width; }

  std::int64_t rows = 0, columns = 0;
  std::int64_t width = 0;  ///< columns of a panel
  std::int64_t pitch = 0;  ///< elements between its rows

 private:
  PackedMatrix(std::int64_t of_rows, std::int64_t of_columns, const T* data);

  const T* data_ = nullptr;
  std::int64_t packed_rows_ = 0;
};

/// A dense result, or rows that are `pitch` apart. Whole vectors are written where the pitch has room for them
/// (product.h).
template <class T>
struct Result {
  T* data;
  std::int64_t pitch;
  const Epilogue* epilogue = nullptr;
  // Of the first element, as the epilogue counts.
  std::int64_t row = 0, column = 0;

  void finish(std::int64_t first_row, std::int64_t rows, std::int64_t first_column, std::int64_t columns) const {
    if (epilogue != nullptr) {
      (*epilogue)(row + first_row, rows, column + first_column, columns);
    }
  }
  Result part(std::int64_t first_row, std::int64_t first_column) const {
    return {data + first_row * pitch + first_column, pitch, epilogue, row + first_row, column + first_column};
  }
};

/// c[i][j] = start[j] + the sum over k of a[i][k] * b[k][j]; `start` may be null. The products of kSumBlock successive
/// k are one chain of fma from zero, and the blocks are added to the start in order: the bits depend on the shape and
/// the elements alone.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const T* start, const Result<T>& c);
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const Result<T>& c) {
  multiply(a, b, static_cast<const T*>(nullptr), c);
}
/// Of a dense result.
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const T* start, T* c) {
  multiply(a, b, start, Result<T>{c, b.columns});
}
template <class T>
void multiply(const Matrix<T>& a, const PackedMatrix<T>& b, const T* start, const Result<T>& c);

/// c[i][j] += the sum, which starts from c[i][j]. For a depth of at most kSumBlock: what a longer sum does with one of
/// its blocks.
template <class T>
void add_product_to(const Matrix<T>& a, const Matrix<T>& b, const Result<T>& c);
/// To a dense result.
template <class T>
void add_product_to(const Matrix<T>& a, const Matrix<T>& b, T* c) {
  add_product_to(a, b, Result<T>{c, b.columns});
}

}  // namespace diptych::kernels
