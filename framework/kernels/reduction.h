#pragma once

#include "framework/kernels/isa.h"
#include "framework/ops/op.h"

/// Reductions with a fixed shape: the elements of one reduction, in logical row-major order, go round-robin to 16
/// virtual lanes; every 4,096 elements the lanes are combined by a fixed tree (i with i + 8, + 4, + 2, + 1), and the
/// block results go the same way. The result depends on the elements alone: not on strides, vector width or threads.
namespace diptych::kernels {

inline constexpr int kLanes = 16;
inline constexpr std::int64_t kBlock = 4096;

namespace detail {

/// W independent reductions side by side (W = 1: one).
template <class Combine, class T, int W>
DIPTYCH_INLINE void start_lanes(T (&lanes)[kLanes][W]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int w = 0; w < W; ++w) {
      lanes[lane][w] = Combine::template identity<T>();
    }
  }
}

template <class Combine, class T, int W>
DIPTYCH_INLINE void combine_lanes(T (&lanes)[kLanes][W]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      for (int w = 0; w < W; ++w) {
        lanes[lane][w] = Combine::apply(lanes[lane][w], lanes[lane + half][w]);
      }
    }
  }
}

/// Reduces rows 0..n of W columns; `load(row, w)`.
template <class Combine, class T, int W, class Load>
DIPTYCH_INLINE void reduce_block(std::int64_t begin, std::int64_t end, const Load& load, T (&lanes)[kLanes][W]) {
  start_lanes<Combine, T, W>(lanes);
  std::int64_t row = begin;
  for (; row + kLanes <= end; row += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int w = 0; w < W; ++w) {
        lanes[lane][w] = Combine::apply(lanes[lane][w], load(row + lane, w));
      }
    }
  }
  for (int lane = 0; row < end; ++row, ++lane) {
    for (int w = 0; w < W; ++w) {
      lanes[lane][w] = Combine::apply(lanes[lane][w], load(row, w));
    }
  }
  combine_lanes<Combine, T, W>(lanes);
}

template <class Combine, class T, int W, class Load>
DIPTYCH_INLINE void reduce(std::int64_t n, const Load& load, T* out) {
  T lanes[kLanes][W];
  if (n <= kBlock) {
    reduce_block<Combine, T, W>(0, n, load, lanes);
    for (int w = 0; w < W; ++w) {
      out[w] = lanes[0][w];
    }
    return;
  }
  T totals[kLanes][W];
  start_lanes<Combine, T, W>(totals);
  for (std::int64_t block = 0; block * kBlock < n; ++block) {
    const std::int64_t end = (block + 1) * kBlock < n ? (block + 1) * kBlock : n;
    reduce_block<Combine, T, W>(block * kBlock, end, load, lanes);
    for (int w = 0; w < W; ++w) {
      totals[block % kLanes][w] = Combine::apply(totals[block % kLanes][w], lanes[0][w]);
    }
  }
  combine_lanes<Combine, T, W>(totals);
  for (int w = 0; w < W; ++w) {
    out[w] = totals[0][w];
  }
}

}  // namespace detail

struct SumCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return T(0);
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};

/// One dense reduction of `n` elements.
template <class Combine, class T>
DIPTYCH_INLINE T reduce_dense(const T* data, std::int64_t n) {
  T result;
  detail::reduce<Combine, T, 1>(
      n, [=](std::int64_t row, int) { return data[row]; }, &result);
  return result;
}

/// How the input of a reduction is walked; strides in elements.
struct ReductionPlan {
  std::int64_t outputs = 1;
  std::int64_t length = 1;  ///< elements of one reduction
  int kept_rank = 0;
  int reduced_rank = 0;
  std::int64_t kept[kMaxRank], kept_strides[kMaxRank];
  std::int64_t reduced[kMaxRank], reduced_strides[kMaxRank];

  /// Offset of element `index` (row-major) over some axes.
  static std::int64_t offset(std::int64_t index, int rank, const std::int64_t* lengths, const std::int64_t* strides) {
    std::int64_t result = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      result += index % lengths[axis] * strides[axis];
      index /= lengths[axis];
    }
    return result;
  }
};

/// Kept and reduced axes of `input`, neighbours merged where the strides allow.
ReductionPlan plan_reduction(const Operand& input, const Axes& axes);

template <class Combine, class T>
struct Reduction {
  DIPTYCH_INLINE static void run(const ReductionPlan* plan, const T* in, T* out) {
    constexpr int kColumns = 16;
    const std::int64_t n = plan->length;
    if (plan->reduced_rank <= 1 && plan->kept_rank >= 1 && plan->kept_strides[plan->kept_rank - 1] == 1 && n > 0) {
      // Columns: neighbouring reductions lie side by side.
      const std::int64_t row_stride = plan->reduced_rank == 1 ? plan->reduced_strides[0] : 0;
      const std::int64_t columns = plan->kept[plan->kept_rank - 1];
      for (std::int64_t base = 0; base < plan->outputs; base += columns) {
        const T* start = in + plan->offset(base, plan->kept_rank, plan->kept, plan->kept_strides);
        std::int64_t column = 0;
        for (; column + kColumns <= columns; column += kColumns) {
          const T* tile = start + column;
          detail::reduce<Combine, T, kColumns>(
              n, [=](std::int64_t row, int w) { return tile[row * row_stride + w]; }, out + base + column);
        }
        for (; column < columns; ++column) {
          const T* single = start + column;
          detail::reduce<Combine, T, 1>(
              n, [=](std::int64_t row, int) { return single[row * row_stride]; }, out + base + column);
        }
      }
      return;
    }
    for (std::int64_t i = 0; i < plan->outputs; ++i) {
      const T* start = in + plan->offset(i, plan->kept_rank, plan->kept, plan->kept_strides);
      if (plan->reduced_rank == 0 || (plan->reduced_rank == 1 && plan->reduced_strides[0] == 1)) {
        out[i] = reduce_dense<Combine>(start, n);
      } else {
        detail::reduce<Combine, T, 1>(
            n,
            [=](std::int64_t row, int) {
              return start[plan->offset(row, plan->reduced_rank, plan->reduced, plan->reduced_strides)];
            },
            out + i);
      }
    }
  }
};

}  // namespace diptych::kernels
