#include "framework/kernels/matrix_product.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include "framework/core/parallel.h"
#include "framework/core/transpose.h"
#include "framework/kernels/column_product.h"
#include "framework/kernels/product.h"
#include "framework/kernels/scratch.h"

namespace diptych::kernels {
namespace {

/// Columns of the right side, and rows of the left side, that are processed together: one block of products of both
/// stays in the L2 cache.
constexpr std::int64_t kPanel = 256;
constexpr std::int64_t kRows = 128;
/// Half as many for a cache of less than a MiB, unless few rows would be left over, which don't make up for reading the
/// right side again.
std::int64_t rows_of_block(std::int64_t rows) {
  static const bool is_small = [] {
    const std::int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return cache > 0 && cache < std::int64_t{1} << 20;
  }();
  const std::int64_t left_over = rows % (kRows / 2);
  return is_small && (left_over == 0 || left_over >= kRows / 4) ? kRows / 2 : kRows;
}
/// Whole tiles of every instruction set.
constexpr std::int64_t kTiles = 3 * kProductStep;
/// The right side is read where it lies by so few rows, because packing it would take as long as the product.
constexpr std::int64_t kFewRows = 16;
/// And if its rows are so close that they share pages: read from many pages, it is slower than packed.
constexpr std::int64_t kCompact = 384;
constexpr std::int64_t kFewPages = 32;
/// Elements of a left side that is copied whole.
constexpr std::int64_t kMostLeft = std::int64_t{1} << 20;
/// The right side is packed for so many rows where what they read would drive each other out of the L1 cache.
constexpr std::int64_t kManyRows = 48;
/// Elements between the rows of what is packed, so that they spread over the sets of a cache.
constexpr std::int64_t kApart = 16;

/// About kPanel, so that all panels are nearly as wide.
constexpr std::int64_t panel_width(std::int64_t columns) {
  const std::int64_t panels = std::max<std::int64_t>((columns + kPanel - 1) / kPanel, 1);
  const std::int64_t each = std::max<std::int64_t>((columns + panels - 1) / panels, 1);
  return std::min(whole_vectors(std::max<std::int64_t>(columns, 1)), (each + kTiles - 1) / kTiles * kTiles);
}

/// Where `width` is a multiple of four cache lines, rows as close as they can be would share a fourth of the sets.
template <class T>
constexpr std::int64_t panel_pitch(std::int64_t width) {
  constexpr std::int64_t kLines = 256 / sizeof(T);
  return width % kLines == 0 ? width + kApart : width;
}

/// Whether rows of the right side that lie a multiple of a high power of two apart, and thus in a few sets of the L1
/// cache, are more than these have room for: then every tile reads them from the second cache. Wider vectors don't
/// wait for it (docs/kernels.md).
template <class T>
bool crowds_cache(const Matrix<T>& part) {
  constexpr std::int64_t kFirstCache = std::int64_t{32} << 10;
  const std::int64_t step = part.row_step * static_cast<std::int64_t>(sizeof(T));
  return active_isa() < Isa::avx512 && part.rows * (step & -step) > kFirstCache;
}

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

/// Rows of dense elements; what is added to: all the same one (pitch 0), or none (null).
template <class T>
struct Rows {
  const T* data;
  std::int64_t pitch;
};

/// The right side where it lies; it is packed where that pays.
template <class T>
class LooseRight {
 public:
  LooseRight(const Matrix<T>& b, std::int64_t rows_of_left)
      : columns(b.columns),
        rows(b.rows),
        width(panel_width(b.columns)),
        pitch(panel_pitch<T>(width)),
        b_(b),
        rows_of_left_(rows_of_left) {}

  LooseRight part(std::int64_t column, std::int64_t count) const {
    return {Matrix<T>{b_.at(0, column), b_.rows, count, b_.row_step, b_.column_step}, rows_of_left_};
  }
  std::int64_t scratch() const { return std::min(kSumBlock, rows) * pitch; }
  /// The columns from `column` on that are read together.
  std::int64_t panel_at(std::int64_t column) const { return std::min(width, columns - column); }
  /// `depth` rows from `k` on of `count` columns; `scratch` may be used for them.
  Rows<T> panel(std::int64_t k, std::int64_t column, std::int64_t depth, std::int64_t count, T* scratch) const {
    const Matrix<T> part{b_.at(k, column), depth, count, b_.row_step, b_.column_step};
    if (can_stay(part)) {
      return {part.data, part.row_step};
    }
    pack_vectors(part, scratch, pitch);
    return {scratch, pitch};
  }

  /// While a panel of `count` columns is multiplied; `next_k` and `next_column` are those of the next one, the latter
  /// `columns` if there is none.
  FetchedRight<T> fetched(std::int64_t column, std::int64_t count, std::int64_t next_k,
                          std::int64_t next_column) const {
    FetchedRight<T> fetched;
    if (rows * columns < kFar) {
      return fetched;
    }
    if (can_stay(Matrix<T>{b_.at(0, column), std::min(kSumBlock, rows), count, b_.row_step, b_.column_step})) {
      fetched.any = true;
    } else if (b_.column_step == 1 && next_column < columns) {
      fetched = {true, nullptr, b_.at(next_k, next_column), b_.row_step};
    }
    return fetched;
  }

  const std::int64_t columns, rows, width, pitch;

 private:
  bool can_stay(const Matrix<T>& part) const {
    // Rows a page apart, or a part of one, share a few sets of the cache.
    const bool in_few_sets = part.row_step * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0;
    const bool is_near = part.row_step <= kCompact || (part.rows <= kFewPages && !in_few_sets);
    return part.column_step == 1 && part.columns % kProductStep == 0 &&
           (rows_of_left_ < kFewRows || (is_near && (rows_of_left_ < kManyRows || !crowds_cache(part))));
  }

  Matrix<T> b_;
  std::int64_t rows_of_left_;
};

template <class T>
class PackedRight {
 public:
  explicit PackedRight(const PackedMatrix<T>& b) : PackedRight(b, 0, b.columns) {}

  PackedRight part(std::int64_t column, std::int64_t count) const { return {b_, first_ + column, count}; }
  std::int64_t scratch() const { return 0; }
  std::int64_t panel_at(std::int64_t column) const {
    return std::min(b_.rest_of_panel(first_ + column), columns - column);
  }
  Rows<T> panel(std::int64_t k, std::int64_t column, std::int64_t /*depth*/, std::int64_t /*count*/,
                T* /*scratch*/) const {
    return {b_.lies_at(k, first_ + column), pitch};
  }
  FetchedRight<T> fetched(std::int64_t /*column*/, std::int64_t /*count*/, std::int64_t next_k,
                          std::int64_t next_column) const {
    const bool is_far = rows * columns >= kFar;
    return {is_far, is_far && next_column < columns ? b_.lies_at(next_k, first_ + next_column) : nullptr};
  }

  const std::int64_t columns, rows, pitch;

 private:
  PackedRight(const PackedMatrix<T>& b, std::int64_t first, std::int64_t count)
      : columns(count), rows(b.rows), pitch(b.pitch), b_(b), first_(first) {}

  PackedMatrix<T> b_;
  std::int64_t first_;
};

template <class T, class Right>
class Product {
 public:
  /// `room`: for the elements of a row of c.
  Product(const Matrix<T>& a, const Right& right, const Rows<T>& start, const Result<T>& c, std::int64_t room)
      : a_(a),
        b_(right),
        start_(start),
        c_(c),
        room_(room),
        block_rows_(rows_of_block(a.rows)),
        result_is_far_(a.rows * c.pitch >= kFar) {
    thread_local Scratch scratch;
    const std::int64_t depth = std::min(kSumBlock, a.columns);
    const std::int64_t rows = std::min(block_rows_, a.rows);
    block_of_left_ = rows * depth + std::max(rows, depth) * kApart;
    blocks_of_rows_ = (a.rows + block_rows_ - 1) / block_rows_;
    const std::int64_t blocks = blocks_of_rows_ * ((a.columns + kSumBlock - 1) / kSumBlock);
    keeps_left_ = is_copied() && b_.columns > b_.panel_at(0) && blocks * block_of_left_ <= kMostLeft;
    const std::int64_t left = block_of_left_ * (keeps_left_ ? blocks : 1);
    right_ = scratch.elements<T>(b_.scratch() + left + rows * b_.pitch);
    left_ = right_ + b_.scratch();
    sums_ = left_ + left;
  }

  void run() {
    for (std::int64_t column = 0; column < b_.columns; column += b_.panel_at(column)) {
      const std::int64_t columns = b_.panel_at(column);
      for (std::int64_t k = 0; k < a_.columns; k += kSumBlock) {
        const bool is_last = k + kSumBlock >= a_.columns;
        const std::int64_t next_k = is_last ? 0 : k + kSumBlock;
        const std::int64_t next_column = is_last ? column + columns : column;
        panel(k, column, std::min(kSumBlock, a_.columns - k), columns,
              b_.fetched(column, columns, next_k, next_column));
      }
    }
  }

 private:
  /// What lies transposed is; so are rows on as many pages, perhaps in the same few sets of the cache, if enough
  /// columns read them.
  bool is_copied() const {
    constexpr std::int64_t kPart = 1024 / sizeof(T);
    return a_.column_step != 1 || (a_.row_step > kPart && a_.rows > kFewRows && b_.columns > 2 * kTiles);
  }

  /// The rows of the left side that come after those from `row` on, if they will be read from memory.
  FetchedRight<T> next_rows(std::int64_t row, std::int64_t k, std::int64_t column) const {
    const bool is_last = row + block_rows_ >= a_.rows;
    const std::int64_t next = is_last ? 0 : row + block_rows_;
    const std::int64_t next_k = is_last ? k + kSumBlock : k;
    const bool was_copied = keeps_left_ && column > 0;
    if (a_.column_step != 1 || was_copied || a_.rows <= kFewRows || a_.rows * a_.columns < kFar ||
        next_k >= a_.columns) {
      return {};
    }
    return {true, nullptr, a_.at(next, next_k), a_.row_step, std::min(block_rows_, a_.rows - next)};
  }

  /// One block of products for all rows. `fetched`: by the first of them; later rows find it in the cache.
  void panel(std::int64_t k, std::int64_t column, std::int64_t depth, std::int64_t columns,
             const FetchedRight<T>& fetched) {
    const Rows<T> right = b_.panel(k, column, depth, columns, right_);
    StridedOperands<T> operands{nullptr, a_.row_step, a_.column_step, right.data, right.pitch};
    for (std::int64_t row = 0; row < a_.rows; row += block_rows_) {
      const std::int64_t rows = std::min(block_rows_, a_.rows - row);
      operands.a = a_.at(row, k);
      if (is_copied()) {
        const Matrix<T> part{operands.a, rows, depth, a_.row_step, a_.column_step};
        T* const copy =
            left_ + (keeps_left_ ? (k / kSumBlock * blocks_of_rows_ + row / block_rows_) * block_of_left_ : 0);
        const bool by_rows = a_.column_step == 1;  // else k by k, as it is read
        operands.a = copy;
        operands.a_row = by_rows ? depth + kApart : 1;
        operands.a_step = by_rows ? 1 : rows + kApart;
        if (!keeps_left_ || column == 0) {
          by_rows ? pack(part, copy, operands.a_row) : pack(part.transposed(), copy, operands.a_step);
        }
      }
      T* const c = c_.data + row * c_.pitch + column;
      tile(rows, columns, depth, operands, k == 0 ? start_at(row, column) : Rows<T>{c, c_.pitch}, c, room_ - column,
           row == 0 && fetched.any ? fetched : next_rows(row, k, column));
      if (k + depth == a_.columns) {
        c_.finish(row, rows, column, columns);
      }
    }
  }

  /// `room`: for the elements of a row of c.
  void tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, const StridedOperands<T>& operands,
            const Rows<T>& start, T* c, std::int64_t room, const FetchedRight<T>& fetched) {
    using Call = ProductCall<T, StridedOperands<T>>;
    const bool start_has_room = start.data == nullptr || start.data == c;
    if (columns % kProductStep == 0 || (start_has_room && whole_vectors(columns) <= room)) {
      product(Call{rows, columns, depth, operands, start.data, start.pitch, c, c_.pitch, fetched, result_is_far_});
      return;
    }
    const T* from = nullptr;
    if (start.data != nullptr) {
      pack(Matrix<T>{start.data, rows, columns, start.pitch, 1}, sums_, b_.pitch);
      pad(rows, columns, sums_, b_.pitch);
      from = sums_;
    }
    product(Call{rows, columns, depth, operands, from, b_.pitch, sums_, b_.pitch, fetched});
    pack(Matrix<T>{sums_, rows, columns, b_.pitch, 1}, c, c_.pitch);
  }

  Rows<T> start_at(std::int64_t row, std::int64_t column) const {
    return start_.data != nullptr ? Rows<T>{start_.data + row * start_.pitch + column, start_.pitch} : start_;
  }

  Matrix<T> a_;
  Right b_;
  Rows<T> start_;
  Result<T> c_;
  std::int64_t room_;
  T* right_;
  T* left_;  ///< copies: all of them, if several panels of columns read them, or those of one block
  T* sums_;
  std::int64_t block_rows_;
  std::int64_t block_of_left_, blocks_of_rows_;
  bool keeps_left_;
  bool result_is_far_;
};

/// Of a product on several threads: ranges of columns if these are many, so that no thread packs what another one
/// packs, else ranges of rows.
struct Division {
  std::int64_t rows, columns;  ///< of a part

  Division(std::int64_t all_rows, std::int64_t all_columns) : rows(all_rows), columns(all_columns) {
    constexpr std::int64_t kWide = 240;
    constexpr std::int64_t kHigh = 512;
    constexpr std::int64_t kTileRows = 8;
    if (all_columns >= all_rows && all_columns > kTiles) {
      columns = part(all_columns, kWide, kProductStep);
    } else {
      rows = part(all_rows, kHigh, kTileRows);
    }
  }

  /// Of so many parts that all threads get as many.
  static std::int64_t part(std::int64_t all, std::int64_t most, std::int64_t step) {
    const std::int64_t threads = thread_count();
    const std::int64_t parts = threads * ((all + threads * most - 1) / (threads * most));
    return ((all + parts - 1) / parts + step - 1) / step * step;
  }
};

template <class T, class Right>
void run_product(const Matrix<T>& a, const Right& b, const Rows<T>& start, const Result<T>& c) {
  const double of_row = nanoseconds_of_product<T>(1, b.columns, a.columns);
  if (a.rows == 0 || of_row == 0 || !is_worth_dividing(a.rows, of_row)) {
    Product<T, Right>(a, b, start, c, c.pitch - c.column).run();
    return;
  }
  const Division each(a.rows, b.columns);
  const std::int64_t across = (b.columns + each.columns - 1) / each.columns;
  const std::int64_t parts = (a.rows + each.rows - 1) / each.rows * across;
  parallel_for(parts, nanoseconds_of_product<T>(each.rows, each.columns, a.columns),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t i = first; i < last; ++i) {
                   const std::int64_t row = i / across * each.rows;
                   const std::int64_t column = i % across * each.columns;
                   const std::int64_t rows = std::min(each.rows, a.rows - row);
                   const std::int64_t columns = std::min(each.columns, b.columns - column);
                   Product<T, Right>(
                       Matrix<T>{a.at(row, 0), rows, a.columns, a.row_step, a.column_step}, b.part(column, columns),
                       Rows<T>{start.data != nullptr ? start.data + row * start.pitch + column : nullptr, start.pitch},
                       c.part(row, column), c.pitch - c.column - column)
                       .run();
                 }
               });
}

/// One row times a matrix whose columns are dense.
template <class T>
void multiply_row(const Matrix<T>& a, const Matrix<T>& b, const T* start, T* c) {
  parallel_for(b.columns, nanoseconds_of_product<T>(1, 1, a.columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = 0; k < a.columns; k += kSumBlock) {
      const T* const from = k > 0 ? c : start;
      column_product(ColumnCall<T>{last - first, std::min(kSumBlock, a.columns - k), b.at(k, first), b.column_step,
                                   a.at(0, k), a.column_step, from != nullptr ? from + first : nullptr, c + first});
    }
  });
}

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const Rows<T>& start, const Result<T>& c) {
  if (a.rows == 1 && b.row_step == 1 && b.column_step != 1) {
    multiply_row(a, b, start.data, c.data);
    c.finish(0, 1, 0, b.columns);
  } else {
    run_product(a, LooseRight<T>(b, a.rows), start, c);
  }
}

}  // namespace

template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& b, const T* start, const Result<T>& c) {
  if (b.columns == 1 && a.rows > 1 && c.pitch == 1) {  // as the product of a row, which has the same elements in memory
    if (start != nullptr) {
      std::fill_n(c.data, a.rows, *start);
    }
    multiply(b.transposed(), a.transposed(), Rows<T>{start != nullptr ? c.data : nullptr, a.rows},
             Result<T>{c.data, a.rows});
    c.finish(0, a.rows, 0, 1);
    return;
  }
  multiply(a, b, Rows<T>{start, 0}, c);
}

template <class T>
void multiply(const Matrix<T>& a, const PackedMatrix<T>& b, const T* start, const Result<T>& c) {
  run_product(a, PackedRight<T>(b), Rows<T>{start, 0}, c);
}

template <class T>
void add_product_to(const Matrix<T>& a, const Matrix<T>& b, const Result<T>& c) {
  multiply(a, b, Rows<T>{c.data, c.pitch}, c);
}

template <class T>
PackedMatrix<T>::PackedMatrix(std::int64_t of_rows, std::int64_t of_columns, const T* data)
    : rows(of_rows),
      columns(of_columns),
      width(panel_width(of_columns)),
      pitch(panel_pitch<T>(width)),
      data_(data),
      packed_rows_(of_rows) {}

template <class T>
std::int64_t PackedMatrix<T>::size(std::int64_t rows, std::int64_t columns) {
  const std::int64_t width = panel_width(columns);
  return (columns + width - 1) / width * panel_pitch<T>(width) * rows;
}

template <class T>
PackedMatrix<T> PackedMatrix<T>::pack(const Matrix<T>& from, T* to) {
  const PackedMatrix packed(from.rows, from.columns, to);
  for (std::int64_t column = 0; column < from.columns; column += packed.width) {
    const std::int64_t columns = std::min(packed.width, from.columns - column);
    pack_vectors(Matrix<T>{from.at(0, column), from.rows, columns, from.row_step, from.column_step}, to, packed.pitch);
    to += packed.pitch * from.rows;
  }
  return packed;
}

template <class T>
bool PackedMatrix<T>::pays_ahead(const Matrix<T>& from, std::int64_t rows_of_left) {
  /// Packing takes as long as multiplying 5 of them, 9 if it transposes.
  constexpr std::int64_t kMostRows = 250;
  if (from.columns == 1) {  // it is multiplied from the left
    return false;
  }
  if (rows_of_left < kFewRows) {  // it is read where it lies, from many pages
    return true;
  }
  // Whatever the instruction set, so that graphs keep as much memory on every machine.
  const bool stays = from.column_step == 1 && from.row_step <= kCompact && from.columns % kProductStep == 0;
  return !stays && rows_of_left <= kMostRows;
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template void multiply(const Matrix<float>&, const Matrix<float>&, const float*, const Result<float>&);
template void multiply(const Matrix<double>&, const Matrix<double>&, const double*, const Result<double>&);
template void multiply(const Matrix<float>&, const PackedMatrix<float>&, const float*, const Result<float>&);
template void multiply(const Matrix<double>&, const PackedMatrix<double>&, const double*, const Result<double>&);
template void add_product_to(const Matrix<float>&, const Matrix<float>&, const Result<float>&);
template void add_product_to(const Matrix<double>&, const Matrix<double>&, const Result<double>&);

}  // namespace diptych::kernels
