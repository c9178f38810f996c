#include "framework/kernels/matrix_product.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "framework/core/transpose.h"
#include "framework/kernels/column_product.h"
#include "framework/kernels/product.h"

namespace diptych::kernels {
namespace {

/// Columns of the right side, and rows of the left side, that are processed together: one block of products of both
/// stays in the L2 cache.
constexpr std::int64_t kPanel = 256;
constexpr std::int64_t kRows = 128;
/// Whole tiles of every instruction set.
constexpr std::int64_t kTiles = 3 * kProductStep;
/// The right side is read where it lies by so few rows, because packing it would take as long as the product.
constexpr std::int64_t kFewRows = 16;
/// And if its rows are so close that they share pages: read from many pages, it is slower than packed.
constexpr std::int64_t kCompact = 384;
constexpr std::int64_t kFewPages = 32;
/// Elements between the rows of a packed left side, so that they spread over the sets of a cache.
constexpr std::int64_t kApart = 16;

constexpr std::int64_t whole_vectors(std::int64_t columns) {
  return (columns + kProductStep - 1) / kProductStep * kProductStep;
}

/// About kPanel, so that all panels are nearly as wide.
constexpr std::int64_t panel_width(std::int64_t columns) {
  const std::int64_t panels = (columns + kPanel - 1) / kPanel;
  const std::int64_t each = (columns + panels - 1) / panels;
  return std::min(whole_vectors(columns), (each + kTiles - 1) / kTiles * kTiles);
}

/// A thread's own memory for packed operands.
class Scratch {
 public:
  /// Valid until the next call.
  template <class T>
  T* elements(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(static_cast<std::byte*>(::operator new(bytes, kLine)));
      size_ = bytes;
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };

  std::unique_ptr<std::byte, Delete> data_;
  std::size_t size_ = 0;
};

/// Without a call for the few elements of an edge.
template <class T>
void copy_run(const T* from, std::int64_t n, T* to) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    std::memcpy(to + i, from + i, 16 * sizeof(T));
  }
  if ((n & 8) != 0) {
    std::memcpy(to + i, from + i, 8 * sizeof(T));
    i += 8;
  }
  if ((n & 4) != 0) {
    std::memcpy(to + i, from + i, 4 * sizeof(T));
    i += 4;
  }
  for (; i < n; ++i) {
    to[i] = from[i];
  }
}

/// A part of a matrix as dense rows, `pitch` apart.
template <class T>
void pack(const Matrix<T>& from, T* to, std::int64_t pitch) {
  if (from.column_step == 1) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    constexpr std::int64_t kAhead = 6;
    for (std::int64_t row = 0; row < from.rows; ++row) {
      const T* const ahead = from.at(std::min(row + kAhead, from.rows - 1), 0);
      for (std::int64_t column = 0; column < from.columns; column += kLine) {
        __builtin_prefetch(ahead + column);
      }
      copy_run(from.at(row, 0), from.columns, to + row * pitch);
    }
  } else if (from.row_step == 1) {
    transpose_matrix(from.columns, from.rows, from.data, from.column_step, to, pitch);
  } else {
    for (std::int64_t row = 0; row < from.rows; ++row) {
      for (std::int64_t column = 0; column < from.columns; ++column) {
        to[row * pitch + column] = *from.at(row, column);
      }
    }
  }
}

/// Zeros behind the columns of packed rows: what is computed from them isn't used, but would take long for subnormals.
template <class T>
void pad(std::int64_t rows, std::int64_t columns, T* to, std::int64_t pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill(to + row * pitch + columns, to + row * pitch + whole_vectors(columns), T(0));
  }
}

/// Whole vectors of columns. Behind the last column stands what lies there in memory, where that is the matrix too.
template <class T>
void pack_vectors(const Matrix<T>& from, T* to, std::int64_t pitch) {
  const std::int64_t beyond = whole_vectors(from.columns) - from.columns;
  std::int64_t rows = 0;
  if (from.column_step == 1 && from.row_step > 0) {
    rows = std::max<std::int64_t>(from.rows - (beyond + from.row_step - 1) / from.row_step, 0);
    pack(Matrix<T>{from.data, rows, from.columns + beyond, from.row_step, 1}, to, pitch);
  }
  const Matrix<T> rest{from.at(rows, 0), from.rows - rows, from.columns, from.row_step, from.column_step};
  pack(rest, to + rows * pitch, pitch);
  pad(rest.rows, rest.columns, to + rows * pitch, pitch);
}

/// Rows that are added to: all the same one (pitch 0), or none (null).
template <class T>
struct Start {
  const T* data;
  std::int64_t pitch;
};

template <class T>
class Product {
 public:
  Product(const Matrix<T>& a, const Matrix<T>& b, const Start<T>& start, T* c)
      : a_(a), b_(b), start_(start), c_(c), n_(b.columns), pitch_(panel_width(n_)) {
    thread_local Scratch scratch;
    const std::int64_t depth = std::min(kSumBlock, a.columns);
    const std::int64_t rows = std::min(kRows, a.rows);
    const std::int64_t left = rows * (depth + kApart);
    right_ = scratch.elements<T>(depth * pitch_ + left + rows * pitch_);
    left_ = right_ + depth * pitch_;
    sums_ = left_ + left;
  }

  void run() {
    for (std::int64_t column = 0; column < n_; column += pitch_) {
      const std::int64_t columns = std::min(pitch_, n_ - column);
      for (std::int64_t k = 0; k < a_.columns; k += kSumBlock) {
        const std::int64_t depth = std::min(kSumBlock, a_.columns - k);
        panel({b_.at(k, column), depth, columns, b_.row_step, b_.column_step}, k, column);
      }
    }
  }

 private:
  bool can_stay(const Matrix<T>& right) const {
    const bool is_near = right.row_step <= kCompact || right.rows <= kFewPages;
    return right.column_step == 1 && right.columns % kProductStep == 0 && (a_.rows < kFewRows || is_near);
  }

  /// Rows on as many pages, perhaps in the same few sets of the cache, are copied if enough columns read them.
  bool is_far_apart() const {
    constexpr std::int64_t kPart = 1024 / sizeof(T);
    return a_.row_step > kPart && a_.rows > kFewRows && n_ > 2 * kTiles;
  }

  /// One block of products for all rows: `right` is rows k... of the columns from `column` on.
  void panel(const Matrix<T>& right, std::int64_t k, std::int64_t column) {
    StridedOperands<T> operands{nullptr, a_.row_step, a_.column_step, right.data, right.row_step};
    if (!can_stay(right)) {
      pack_vectors(right, right_, pitch_);
      operands.b = right_;
      operands.b_step = pitch_;
    }
    for (std::int64_t row = 0; row < a_.rows; row += kRows) {
      const std::int64_t rows = std::min(kRows, a_.rows - row);
      operands.a = a_.at(row, k);
      if (a_.column_step == 1 && is_far_apart()) {
        pack(Matrix<T>{operands.a, rows, right.rows, a_.row_step, 1}, left_, right.rows + kApart);
        operands.a = left_;
        operands.a_row = right.rows + kApart;
      } else if (a_.column_step != 1) {  // k by k, as it is read
        pack(Matrix<T>{operands.a, rows, right.rows, a_.row_step, a_.column_step}.transposed(), left_, rows);
        operands.a = left_;
        operands.a_row = 1;
        operands.a_step = rows;
      }
      tile(rows, right.columns, right.rows, operands, k == 0 ? start_at(row, column) : Start<T>{c_at(row, column), n_},
           c_at(row, column));
    }
  }

  void tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, const StridedOperands<T>& operands,
            const Start<T>& start, T* c) {
    using Call = ProductCall<T, StridedOperands<T>>;
    if (columns % kProductStep == 0) {
      product(Call{rows, columns, depth, operands, start.data, start.pitch, c, n_});
      return;
    }
    const T* from = nullptr;
    if (start.data != nullptr) {
      pack(Matrix<T>{start.data, rows, columns, start.pitch, 1}, sums_, pitch_);
      pad(rows, columns, sums_, pitch_);
      from = sums_;
    }
    product(Call{rows, columns, depth, operands, from, pitch_, sums_, pitch_});
    pack(Matrix<T>{sums_, rows, columns, pitch_, 1}, c, n_);
  }

  T* c_at(std::int64_t row, std::int64_t column) const { return c_ + row * n_ + column; }
  Start<T> start_at(std::int64_t row, std::int64_t column) const {
    return start_.data != nullptr ? Start<T>{start_.data + row * start_.pitch + column, start_.pitch} : start_;
  }

  Matrix<T> a_;
  Matrix<T> b_;
  Start<T> start_;
  T* c_;
  std::int64_t n_;
  std::int64_t pitch_;  ///< of the packed right side and of the sums
  T* right_;
  T* left_;
  T* sums_;
};

/// One row times a matrix whose columns are dense.
template <class T>
void multiply_row(const Matrix<T>& a, const Matrix<T>& b, const T* start, T* c) {
  for (std::int64_t k = 0; k < a.columns; k += kSumBlock) {
    column_product(ColumnCall<T>{b.columns, std::min(kSumBlock, a.columns - k), b.at(k, 0), b.column_step, a.at(0, k),
                                 a.column_step, k > 0 ? c : start, c});
  }
}

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const Start<T>& start, T* c) {
  if (a.rows == 1 && b.row_step == 1 && b.column_step != 1) {
    multiply_row(a, b, start.data, c);
  } else {
    Product<T>(a, b, start, c).run();
  }
}

}  // namespace

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const T* start, T* c) {
  if (b.columns == 1 && a.rows > 1) {  // as the product of a row, which has the same elements in memory
    if (start != nullptr) {
      std::fill_n(c, a.rows, *start);
    }
    multiply(b.transposed(), a.transposed(), Start<T>{start != nullptr ? c : nullptr, a.rows}, c);
    return;
  }
  multiply(a, b, Start<T>{start, 0}, c);
}

template void multiply(const Matrix<float>&, const Matrix<float>&, const float*, float*);
template void multiply(const Matrix<double>&, const Matrix<double>&, const double*, double*);

}  // namespace diptych::kernels
