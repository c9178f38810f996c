#include "framework/kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "framework/kernels/product.h"
#include "framework/kernels/scratch.h"

namespace diptych::kernels {
namespace {

/// Rows of scores that are processed together: few enough for the cache, enough for the tiles of a product.
constexpr std::int64_t kBlockRows = 32;
/// For fewer rows the right sides are read where they lie.
constexpr std::int64_t kFewQueries = 16;

/// Whether 0 * x is 0 for all elements. Integers, because sums of floats have an order.
template <class T>
bool is_finite(const Matrix<T>& x) {
  int others = 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* const elements = x.at(row, 0);
    if (x.column_step == 1) {
      for (std::int64_t column = 0; column < x.columns; ++column) {
        others |= static_cast<int>(elements[column] * T(0) != T(0));
      }
    } else {
      for (std::int64_t column = 0; column < x.columns; ++column) {
        others |= static_cast<int>(elements[column * x.column_step] * T(0) != T(0));
      }
    }
  }
  return others == 0;
}

template <class T>
double largest_magnitude(const Matrix<T>& x) {
  double largest = 0;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T of_row = 0;
    for (std::int64_t column = 0; column < x.columns; ++column) {
      of_row = std::max(of_row, std::abs(*x.at(row, column)));
    }
    largest = std::max(largest, static_cast<double>(of_row));
  }
  return largest;
}

template <class T>
bool has_negative_zero(const T* x, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  Bits found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    found |= static_cast<Bits>(std::bit_cast<Bits>(x[i]) == std::numeric_limits<Bits>::min());
  }
  return found != 0;
}

/// Elements `first` and following of the weights.
template <class T>
struct Drop {
  DIPTYCH_INLINE static void run(const WeightDropout* dropout, std::int64_t first, std::int64_t n, T* x) {
    alignas(64) std::uint32_t bits[kRandomTile];
    const Chance keep = dropout->keep;
    const T factor = static_cast<T>(dropout->factor);
    std::int64_t begin = first / kRandomGroup * kRandomGroup;
    std::int64_t before = first - begin;
    while (n > 0) {
      const std::int64_t count = std::min(kRandomTile - before, n);
      detail::random_tile(dropout->state, begin, before + count, bits);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) {
        x[i] = kept_or_zero(keep(bits[before + i]) != 0, x[i] * factor);
      }
      begin += kRandomTile;
      before = 0;
      x += count;
      n -= count;
    }
  }
};

template <class T>
void drop(const WeightDropout* dropout, const Scores& scores, const ScorePart& part, T* x) {
  if (dropout == nullptr) {
    return;
  }
  for (std::int64_t row = 0; row < part.rows; ++row) {
    const std::int64_t first = (part.matrix * scores.rows + part.first_row + row) * scores.columns;
    PerIsa<Drop<T>>::active()(dropout, first, part.columns, x + row * part.pitch);
  }
}

/// A row with NaN has it in every column, also in those that it doesn't attend to.
template <class T>
bool has_nan_rows(const ScorePart& part, const T* weights) {
  bool has = false;
  for (std::int64_t row = 0; row < part.rows; ++row) {
    has = has || std::isnan(weights[row * part.pitch]);
  }
  return has;
}

template <class T>
Matrix<T> part_of(const Matrix<T>& x, std::int64_t first, std::int64_t count) {
  return {x.at(first, 0), count, x.columns, x.row_step, x.column_step};
}

/// The right side of products with blocks of rows: packed, unless the rows are few.
template <class T>
class Right {
 public:
  Right(const Matrix<T>& b, bool packs) : b_(b), packs_(packs) {}
  std::int64_t size() const { return packs_ ? PackedMatrix<T>::size(b_.rows, b_.columns) : 0; }
  /// Returns the memory behind its own.
  T* pack(T* to) {
    if (packs_) {
      packed_ = PackedMatrix<T>::pack(b_, to);
    }
    return to + size();
  }

  /// c = a b, of the upper left part of b that has as many rows as a has columns, and `columns` columns.
  void multiply(const Matrix<T>& a, std::int64_t columns, const Result<T>& c) const {
    if (a.columns == 0) {
      for (std::int64_t row = 0; row < a.rows; ++row) {
        std::fill_n(c.data + row * c.pitch, columns, T(0));
      }
    } else if (packs_) {
      kernels::multiply(a, packed_.part(a.columns, columns), static_cast<const T*>(nullptr), c);
    } else {
      kernels::multiply(a, Matrix<T>{b_.data, a.columns, columns, b_.row_step, b_.column_step}, c);
    }
  }

 private:
  Matrix<T> b_;
  bool packs_;
  PackedMatrix<T> packed_;
};

/// Columns that no row of a causal block attends to have weights of 0. Leaving them out changes no bit if 0 times what
/// they are multiplied with is 0, and if no sum is -0, to which 0 may have been added.
std::int64_t columns_of_block(const Scores& scores, std::int64_t first, std::int64_t rows, bool may_skip) {
  return may_skip ? scores.attended(first + rows - 1) : scores.columns;
}

template <class T>
class Forward {
 public:
  Forward(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const RowRange& range, T* out)
      : scores_(scores),
        head_(head),
        dropout_(dropout),
        range_(range),
        out_(out),
        keys_(head.k.transposed(), range.count >= kFewQueries),
        values_(head.v, range.count >= kFewQueries),
        pitch_(product_pitch(scores.columns)) {
    thread_local Scratch scratch;
    const std::int64_t block = std::min(kBlockRows, range.count);
    T* memory = scratch.elements<T>(keys_.size() + values_.size() + block * pitch_);
    weights_ = values_.pack(keys_.pack(memory));
  }

  void run() {
    const bool may_skip = scores_.is_causal && is_finite(head_.v);
    for (std::int64_t done = 0; done < range_.count; done += kBlockRows) {
      const std::int64_t first = range_.first + done;
      const std::int64_t rows = std::min(kBlockRows, range_.count - done);
      const std::int64_t columns = columns_of_block(scores_, first, rows, may_skip);
      T* const out = out_ + done * head_.v.columns;
      const bool has_nan = block(first, rows, columns, out);
      if (columns < scores_.columns && (has_nan || has_negative_zero(out, rows * head_.v.columns))) {
        block(first, rows, scores_.columns, out);
      }
    }
  }

 private:
  /// Whether dropout may have hidden a row of NaN.
  bool block(std::int64_t first, std::int64_t rows, std::int64_t columns, T* out) {
    const ScorePart part{head_.matrix, first, rows, columns, pitch_, true};
    keys_.multiply(part_of(head_.q, first, rows), columns, {weights_, pitch_});
    masked_softmax(scores_, part, weights_, weights_);
    const bool hides_nan = dropout_ != nullptr && has_nan_rows(part, weights_);
    drop(dropout_, scores_, part, weights_);
    values_.multiply({weights_, rows, columns, pitch_, 1}, head_.v.columns, {out, head_.v.columns});
    return hides_nan;
  }

  const Scores& scores_;
  const Head<T>& head_;
  const WeightDropout* dropout_;
  RowRange range_;
  T* out_;
  Right<T> keys_;
  Right<T> values_;
  std::int64_t pitch_;
  T* weights_;
};

template <class T>
class Backward {
 public:
  Backward(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const Matrix<T>& g, T* dq, T* dk,
           T* dv)
      : scores_(scores),
        head_(head),
        dropout_(dropout),
        g_(g),
        dq_(dq),
        dk_(dk),
        dv_(dv),
        keys_(head.k.transposed(), head.q.rows >= kFewQueries),
        values_(head.v.transposed(), head.q.rows >= kFewQueries),
        back_(head.k, head.q.rows >= kFewQueries),
        pitch_(product_pitch(scores.columns)) {
    thread_local Scratch scratch;
    const std::int64_t block = std::min(kSumBlock, scores.rows);
    T* memory = scratch.elements<T>(keys_.size() + values_.size() + back_.size() + 2 * block * pitch_);
    weights_ = back_.pack(values_.pack(keys_.pack(memory)));
    gradients_ = weights_ + block * pitch_;
  }

  void run() {
    const bool may_skip = scores_.is_causal && is_finite(head_.q) && is_finite(head_.k) && is_finite(head_.v) &&
                          is_finite(g_) && (!scores_.whole_rows || !may_overflow());
    if (scores_.rows == 0) {
      std::fill_n(dk_, head_.k.rows * head_.k.columns, T(0));
      std::fill_n(dv_, head_.v.rows * head_.v.columns, T(0));
    }
    for (std::int64_t first = 0; first < scores_.rows; first += kSumBlock) {
      const std::int64_t rows = std::min(kSumBlock, scores_.rows - first);
      bool skips = may_skip;
      const bool has_nan = block(first, rows, skips);
      if (skips && (has_nan || has_negative_zero(dq_ + first * head_.q.columns, rows * head_.q.columns))) {
        skips = false;
        block(first, rows, skips);
      }
      const std::int64_t columns = columns_of_block(scores_, first, rows, skips);
      const std::int64_t step = skips ? kSumColumns : columns;
      for (std::int64_t column = 0; column < columns; column += step) {
        // The rows before the first that attends to these columns would add zeros to a sum of nothing.
        const std::int64_t row = skips ? std::max<std::int64_t>(0, column - first) : 0;
        const std::int64_t count = std::min(step, columns - column);
        add_sums(gradients_, head_.q, {first, row, rows}, {column, count}, dk_);
        add_sums(weights_, g_, {first, row, rows}, {column, count}, dv_);
      }
      if (first == 0) {
        std::fill(dk_ + columns * head_.k.columns, dk_ + scores_.columns * head_.k.columns, T(0));
        std::fill(dv_ + columns * head_.v.columns, dv_ + scores_.columns * head_.v.columns, T(0));
      }
    }
  }

 private:
  /// Columns of a causal block whose sums are taken together.
  static constexpr std::int64_t kSumColumns = 64;

  /// Of a block of the scores from row `first` on, those from `begin` to `end`.
  struct BlockRows {
    std::int64_t first, begin, end;
  };
  struct Columns {
    std::int64_t first, count;
  };

  /// Whether an element of g v^T may not be finite, of finite g and v.
  bool may_overflow() const {
    const double factor = dropout_ == nullptr ? 1 : std::max(1.0, std::abs(dropout_->factor));
    const double bound = largest_magnitude(g_) * largest_magnitude(head_.v) * factor * static_cast<double>(g_.columns);
    return !(bound < static_cast<double>(std::numeric_limits<T>::max()) / 4);
  }

  /// Whether a row is NaN. With `skips`, what lies right of the columns that a part of the rows attends to isn't
  /// computed, but zeros as far as sums of kSumColumns read it.
  bool block(std::int64_t block_first, std::int64_t block_rows, bool skips) {
    bool has_nan = false;
    for (std::int64_t row = 0; row < block_rows; row += kBlockRows) {
      const std::int64_t first = block_first + row;
      const std::int64_t rows = std::min(kBlockRows, block_rows - row);
      const std::int64_t columns = columns_of_block(scores_, first, rows, skips);
      T* const weights = weights_ + row * pitch_;
      T* const gradients = gradients_ + row * pitch_;
      const ScorePart part{head_.matrix, first, rows, columns, pitch_, true};
      keys_.multiply(part_of(head_.q, first, rows), columns, {weights, pitch_});
      masked_softmax(scores_, part, weights, weights);
      has_nan = has_nan || has_nan_rows(part, weights);
      values_.multiply(part_of(g_, first, rows), columns, {gradients, pitch_});
      drop(dropout_, scores_, part, gradients);
      masked_softmax_backward(scores_, part, gradients, weights, gradients);
      back_.multiply({gradients, rows, columns, pitch_, 1}, head_.q.columns,
                     {dq_ + first * head_.q.columns, head_.q.columns});
      drop(dropout_, scores_, part, weights);
      const std::int64_t end = std::min(scores_.columns, (columns + kSumColumns - 1) / kSumColumns * kSumColumns);
      for (std::int64_t i = 0; i < rows; ++i) {
        std::fill(weights + i * pitch_ + columns, weights + i * pitch_ + end, T(0));
        std::fill(gradients + i * pitch_ + columns, gradients + i * pitch_ + end, T(0));
      }
    }
    return has_nan;
  }

  /// Adds the product of some columns of `block`, transposed, with the same rows of `right`; the first block's is the
  /// sum so far.
  void add_sums(const T* block, const Matrix<T>& right, const BlockRows& rows, const Columns& columns, T* sums) {
    const std::int64_t count = rows.end - rows.begin;
    const Matrix<T> a{block + rows.begin * pitch_ + columns.first, columns.count, count, 1, pitch_};
    const Matrix<T> b = part_of(right, rows.first + rows.begin, count);
    T* const to = sums + columns.first * right.columns;
    if (rows.first > 0) {
      add_product_to(a, b, to);
    } else {
      multiply(a, b, static_cast<const T*>(nullptr), to);
    }
  }

  const Scores& scores_;
  const Head<T>& head_;
  const WeightDropout* dropout_;
  const Matrix<T>& g_;
  T* dq_;
  T* dk_;
  T* dv_;
  Right<T> keys_;
  Right<T> values_;
  Right<T> back_;
  std::int64_t pitch_;
  T* weights_;
  T* gradients_;
};

}  // namespace

template <class T>
void attention(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const RowRange& rows, T* out) {
  Forward<T>(scores, head, dropout, rows, out).run();
}

template <class T>
void attention_backward(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const Matrix<T>& g,
                        T* dq, T* dk, T* dv) {
  Backward<T>(scores, head, dropout, g, dq, dk, dv).run();
}

template void attention(const Scores&, const Head<float>&, const WeightDropout*, const RowRange&, float*);
template void attention(const Scores&, const Head<double>&, const WeightDropout*, const RowRange&, double*);
template void attention_backward(const Scores&, const Head<float>&, const WeightDropout*, const Matrix<float>&, float*,
                                 float*, float*);
template void attention_backward(const Scores&, const Head<double>&, const WeightDropout*, const Matrix<double>&,
                                 double*, double*, double*);

}  // namespace diptych::kernels
