#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/core/parallel.h"
#include "framework/kernels/normalisation.h"
#include "framework/kernels/runs.h"
#include "framework/kernels/wide_float.h"

/// What the kernels of normalisations and those of their gradients share.
namespace diptych::kernels {

/// Of a row: the three elements that normalise_row_statistics() writes.
template <class T>
struct RowStatistics {
  T mean = T(0);
  T shift = T(0);  ///< the mean of x - mean: the rounding error of the mean
  T rstd = T(0);

  /// For an element or a vector of elements.
  template <class X>
  DIPTYCH_INLINE X normalised(X x) const {
    return ((x - mean) - shift) * rstd;
  }
};

/// Of a channel: the four elements that normalise_channel_statistics() writes.
template <class T>
struct ChannelStatistics : RowStatistics<T> {
  T variance = T(0);
};

/// Rows that are processed together, one sum after the other: what a short row waits for at the end of a sum (additions
/// of lanes, a quotient, a root) takes as long as the sum itself, and the next row's sum hides it.
constexpr std::int64_t kMostTogether = 64;
constexpr std::int64_t kBytesTogether = 4 << 10;

/// A power of two, so that a number of them fill kMostTogether, and few enough for the rows of x, dy and dx, and the
/// next ones of x and dy, to stay in the L1 cache.
template <class T>
std::int64_t rows_together(std::int64_t n) {
  std::int64_t together = kMostTogether;
  while (together > 1 && together * n * static_cast<std::int64_t>(sizeof(T)) > kBytesTogether) {
    together /= 2;
  }
  return together;
}

/// Rows are read several times, from the L1 cache but for the first time. So that the memory works meanwhile, what
/// processes `count` rows of `n` elements from `first` on asks for the ones that follow: at most as many, unless they
/// are so long that they would drive its own out of the cache.
template <class T>
std::int64_t rows_ahead(std::int64_t n, std::int64_t first, std::int64_t count, std::int64_t end) {
  return n * static_cast<std::int64_t>(sizeof(T)) > kBytesTogether ? 0 : std::min(count, end - first - count);
}
template <class T>
DIPTYCH_INLINE void prefetch_row(const T* row, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < n; i += kLine) {
    __builtin_prefetch(row + i);
  }
}

/// normalise_row_statistics() on this thread, of rows that are processed together.
void find_row_statistics(const NormShape& shape, DType dtype, const void* x, std::int64_t ahead, void* statistics);

/// Calls fn(first, count, ahead, statistics) for runs of neighbouring rows of x, not by channel. `given`: the
/// statistics of all rows, or null: they are found here.
template <class T, class Fn>
void for_rows(const NormShape& shape, DType dtype, const T* x, const void* given, const Fn& fn) {
  const std::int64_t together = rows_together<T>(shape.columns);
  RowStatistics<T> found[kMostTogether];
  NormShape part = shape;
  for (std::int64_t first = 0; first < shape.rows; first += together) {
    part.rows = std::min(together, shape.rows - first);
    const std::int64_t ahead = rows_ahead<T>(shape.columns, first, part.rows, shape.rows);
    if (given == nullptr) {
      find_row_statistics(part, dtype, x + first * shape.columns, ahead, found);
    }
    fn(first, part.rows, ahead, given == nullptr ? found : static_cast<const RowStatistics<T>*>(given) + first);
  }
}

/// Of an element that is normalised, on one thread, roughly.
constexpr double kNanosecondsOfNormalised = 0.3;

/// The same on several threads if that pays: for rows that don't depend on each other.
template <class T, class Fn>
void for_rows_in_parts(const NormShape& shape, DType dtype, const T* x, const void* given, const Fn& fn) {
  const double of_row = kNanosecondsOfNormalised * static_cast<double>(shape.columns);
  parallel_for(shape.rows, of_row, [&](std::int64_t begin, std::int64_t end) {
    NormShape part = shape;
    part.rows = end - begin;
    for_rows(part, dtype, x + begin * shape.columns,
             given == nullptr ? nullptr : static_cast<const RowStatistics<T>*>(given) + begin,
             [&](std::int64_t first, std::int64_t count, std::int64_t ahead, const RowStatistics<T>* statistics) {
               fn(begin + first, count, ahead, statistics);
             });
  });
}

/// Calls fn(first, last) for ranges of channels.
template <class Fn>
void for_channels(const NormShape& shape, const Fn& fn) {
  parallel_for(shape.rows, kNanosecondsOfNormalised * static_cast<double>(shape.columns), fn);
}

/// Where the elements of a row stand: `length` neighbouring ones, then, `pitch` elements on, the next.
struct Pieces {
  std::int64_t length;
  std::int64_t pitch;
};

/// A channel of a result [batch, channels, plane]. It goes there from the gathered row at once, not through a buffer
/// that would be copied once more.
inline Pieces pieces_of_channel(const NormShape& shape) { return {shape.plane, shape.result_pitch}; }

/// One channel of [batch, channels, plane] as a dense row.
template <class T>
class Channels {
 public:
  explicit Channels(const NormShape& shape) : shape_(shape), row_(is_dense() ? 0 : shape.columns) {}

  const T* gather(const T* x, std::int64_t channel) const {
    x += channel * shape_.plane;
    if (is_dense()) {
      return x;
    }
    for (std::int64_t image = 0; image < shape_.batch; ++image) {
      std::copy_n(x + image * shape_.rows * shape_.plane, shape_.plane, row_.data() + image * shape_.plane);
    }
    return row_.data();
  }

 private:
  bool is_dense() const { return shape_.batch == 1 || shape_.rows == 1; }

  const NormShape& shape_;
  Buffer<T> row_;
};

}  // namespace diptych::kernels
