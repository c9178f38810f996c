#pragma once

#include <algorithm>
#include <cstring>

#include "framework/core/isa.h"
#include "framework/core/parallel.h"
#include "framework/core/storage.h"
#include "framework/dispatch/call.h"
#include "framework/math/scalar_math.h"

/// Reductions with a fixed shape. The elements of one reduction, in logical row-major order, are dealt round-robin to
/// 16 virtual lanes; every 4,096 elements the lanes are combined by a fixed tree (i with i + 8, + 4, + 2, + 1), and the
/// block results are combined in the same way. The result depends on the elements alone, not on strides, vector width
/// or threads.
namespace diptych::kernels {

inline constexpr std::int64_t kLanes = 16;
inline constexpr std::int64_t kBlock = 4096;
/// Number of neighbouring reductions that run side by side: a page of a row, so that memory is read in long runs.
template <class T>
inline constexpr int kColumns = 4096 / sizeof(T);

namespace detail {

/// A combination that can be applied to a whole vector in place.
template <class Combine>
concept VectorCombine = requires(float& a, const float& b) {
  Combine::merge(a, b);
};
template <class T, int n>
using Vector [[gnu::vector_size(n * sizeof(T))]] = T;

/// The tree, with constant lengths so that it stays in registers. Lanes without elements hold the identity, which
/// changes nothing.
template <class Combine, class T, int n = kLanes>
DIPTYCH_INLINE T combine_lanes(const T* lanes) {
  if constexpr (n == 1) {
    return lanes[0];
  } else {
    T half[n / 2];
    if constexpr (VectorCombine<Combine> && std::is_floating_point_v<T>) {
      Vector<T, n / 2> low;
      Vector<T, n / 2> high;
      std::memcpy(&low, lanes, sizeof(low));
      std::memcpy(&high, lanes + n / 2, sizeof(high));
      Combine::merge(low, high);
      std::memcpy(half, &low, sizeof(low));
    } else {
      for (int lane = 0; lane < n / 2; ++lane) {
        half[lane] = Combine::apply(lanes[lane], lanes[lane + n / 2]);
      }
    }
    return combine_lanes<Combine, T, n / 2>(half);
  }
}

template <class Combine, class T, class Load>
DIPTYCH_INLINE T reduce_block(std::int64_t begin, std::int64_t end, const Load& load) {
  T lanes[kLanes];
  for (T& lane : lanes) {
    lane = Combine::template identity<T>();
  }
  std::int64_t row = begin;
  for (; row + kLanes <= end; row += kLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = Combine::apply(lanes[lane], load(row + lane));
    }
  }
  const int rest = static_cast<int>(end - row);
  if (rest > 0) {
    // A masked load if the instruction set has one.
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane < rest) {
        lanes[lane] = Combine::apply(lanes[lane], load(row + lane));
      }
    }
  }
  return combine_lanes<Combine>(lanes);
}

/// A combination that selects one of its operands.
template <class Combine>
concept Extreme = requires {
  Combine::before(0, 0);
};
inline constexpr std::int64_t kExtremeLanes = 32;

/// The extreme of n >= kExtremeLanes elements, NaN if any is. It is the same in any order except for the sign of a
/// zero, so more lanes can be used to hide the latency, and NaN is detected outside their chains.
template <class Combine, class T, class Load>
DIPTYCH_INLINE T extreme(std::int64_t n, const Load& load) {
  T lanes[kExtremeLanes];
  for (T& lane : lanes) {
    lane = Combine::template identity<T>();
  }
  int nan = 0;
  for (std::int64_t begin = 0; begin < n; begin += kExtremeLanes) {
    const std::int64_t row = begin + kExtremeLanes <= n ? begin : n - kExtremeLanes;  // the last may repeat some
    for (int lane = 0; lane < kExtremeLanes; ++lane) {
      const T x = load(row + lane);
      lanes[lane] = Combine::before(x, lanes[lane]) ? x : lanes[lane];
      nan |= static_cast<int>(x != x);
    }
  }
  for (int half = kExtremeLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      lanes[lane] = Combine::before(lanes[lane + half], lanes[lane]) ? lanes[lane + half] : lanes[lane];
    }
  }
  return nan != 0 ? std::numeric_limits<T>::quiet_NaN() : lanes[0];
}

/// One reduction of load(0), load(1), ..., load(n - 1).
template <class Combine, class T, class Load>
DIPTYCH_INLINE T reduce(std::int64_t n, const Load& load) {
  if constexpr (Extreme<Combine> && std::is_floating_point_v<T>) {
    if (n >= kExtremeLanes) {
      const T result = extreme<Combine, T>(n, load);
      if (result != T(0)) {
        return result;
      }
    }
  }
  T totals[kLanes];
  for (T& total : totals) {
    total = Combine::template identity<T>();
  }
  for (std::int64_t block = 0;; ++block) {
    const std::int64_t end = (block + 1) * kBlock < n ? (block + 1) * kBlock : n;
    // The only call, because each one is inlined as another copy.
    const T result = reduce_block<Combine, T>(block * kBlock, end, load);
    if (n <= kBlock) {
      return result;
    }
    totals[block % kLanes] = Combine::apply(totals[block % kLanes], result);
    if (end == n) {
      return combine_lanes<Combine>(totals);
    }
  }
}

template <class Combine, class T, int W, class Load>
DIPTYCH_INLINE void reduce(std::int64_t n, const Load& load, T* out) {
  static_assert(W == 1, "reduce_columns takes several");
  *out = reduce<Combine, T>(n, [&](std::int64_t row) { return load(row, 0); });
}

/// a[w] = a[w] combined with load(w)
template <class Combine, class T, class Load>
DIPTYCH_INLINE void combine_row(T* a, int width, const Load& load) {
#pragma GCC ivdep
  for (int w = 0; w < width; ++w) {
    a[w] = Combine::apply(a[w], load(w));
  }
}
template <class Combine, class T>
DIPTYCH_INLINE void start_row(T* a, int width) {
  for (int w = 0; w < width; ++w) {
    a[w] = Combine::template identity<T>();
  }
}
/// Padded, because lanes a page apart would map to the same cache sets.
template <class T>
using LaneRow = T[kColumns<T> + 64 / sizeof(T)];
template <class Combine, class T>
DIPTYCH_INLINE void combine_lane_rows(LaneRow<T>* lanes, int width, std::int64_t used) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half && lane + half < used; ++lane) {
      const T* other = lanes[lane + half];
      combine_row<Combine>(lanes[lane], width, [=](int w) { return other[w]; });
    }
  }
}

/// `width` reductions side by side, row by row, which suits the memory layout; load(row, w).
template <class Combine, class T, class Load>
DIPTYCH_INLINE void reduce_columns(std::int64_t n, int width, const Load& load, T* out) {
  constexpr int kTurns = 4;  // elements per lane while it is in use
  LaneRow<T> lanes[kLanes];
  LaneRow<T> totals[kLanes];
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  for (std::int64_t block = 0; block < (blocks > 0 ? blocks : 1); ++block) {
    const std::int64_t begin = block * kBlock;
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    const std::int64_t used = end - begin < kLanes ? end - begin : kLanes;
    for (std::int64_t lane = 0; lane < (used > 0 ? used : 1); ++lane) {
      start_row<Combine>(lanes[lane], width);
    }
    std::int64_t row = begin;
    for (; row + kTurns * kLanes <= end; row += kTurns * kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        T* a = lanes[lane];
#pragma GCC ivdep
        for (int w = 0; w < width; ++w) {
          T value = a[w];
          for (int turn = 0; turn < kTurns; ++turn) {
            value = Combine::apply(value, load(row + turn * kLanes + lane, w));
          }
          a[w] = value;
        }
      }
    }
    for (; row < end; ++row) {
      combine_row<Combine>(lanes[row % kLanes], width, [&](int w) { return load(row, w); });
    }
    combine_lane_rows<Combine>(lanes, width, used);
    if (blocks > 1) {
      if (block < kLanes) {
        start_row<Combine>(totals[block], width);
      }
      combine_row<Combine>(totals[block % kLanes], width, [&](int w) { return lanes[0][w]; });
    }
  }
  if (blocks > 1) {
    combine_lane_rows<Combine>(totals, width, blocks < kLanes ? blocks : kLanes);
  }
  for (int w = 0; w < width; ++w) {
    out[w] = blocks > 1 ? totals[0][w] : lanes[0][w];
  }
}

}  // namespace detail

struct SumCombine {
  /// By reference, because passing vectors as arguments depends on the instruction set.
  template <class V>
  DIPTYCH_INLINE static void merge(V& a, const V& b) {
    a += b;
  }
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

struct ProductCombine {
  /// By reference, because passing vectors as arguments depends on the instruction set.
  template <class V>
  DIPTYCH_INLINE static void merge(V& a, const V& b) {
    a *= b;
  }
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return T(1);
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));  // wraps around
    } else {
      return a * b;
    }
  }
};

struct MaxCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::maximum(a, b);
  }
  template <class T>
  DIPTYCH_INLINE static bool before(T a, T b) {
    return a > b;
  }
};

struct MinCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::minimum(a, b);
  }
  template <class T>
  DIPTYCH_INLINE static bool before(T a, T b) {
    return a < b;
  }
};

/// One dense reduction of `n` elements.
template <class Combine, class T>
DIPTYCH_INLINE T reduce_dense(const T* data, std::int64_t n) {
  return detail::reduce<Combine, T>(n, [=](std::int64_t row) { return data[row]; });
}

/// How the input of a reduction is walked; strides in elements.
struct ReductionPlan {
  std::int64_t outputs = 1;
  std::int64_t length = 1;  ///< elements of one reduction
  int kept_rank = 0;
  int reduced_rank = 0;
  std::int64_t kept[kMaxRank], kept_strides[kMaxRank];
  std::int64_t reduced[kMaxRank], reduced_strides[kMaxRank];

  /// Whether neighbouring reductions lie side by side in memory, and are numerous enough to be run that way.
  bool side_by_side() const {
    constexpr int kFewest = 8;
    return reduced_rank <= 1 && length > 0 && kept_rank >= 1 && kept_strides[kept_rank - 1] == 1 &&
           kept[kept_rank - 1] >= kFewest;
  }
  /// Whether the elements of one reduction are gathered first: bodies then pass over them densely, and there is one
  /// copy of each body.
  bool needs_gather() const {
    return length > 0 && !side_by_side() && (reduced_rank > 1 || (reduced_rank == 1 && reduced_strides[0] != 1));
  }

  /// The offset of element `index` (row-major) over some axes.
  static std::int64_t offset(std::int64_t index, int rank, const std::int64_t* lengths, const std::int64_t* strides) {
    std::int64_t result = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      result += index % lengths[axis] * strides[axis];
      index /= lengths[axis];
    }
    return result;
  }
};

/// The kept and reduced axes of `input`, with neighbours merged where the strides allow.
ReductionPlan plan_reduction(const Operand& input, const Axes& axes);

/// Calls run(part, offset, first) for parts that are whole reductions, on several threads if that pays; `offset`: where
/// the part's input begins, in elements; `first`: its first output.
template <class Run>
void for_parts(const ReductionPlan& plan, const Run& run) {
  constexpr std::int64_t kFewest = 64;  // neighbouring reductions that are kept together
  constexpr double kNanosecondsOfElement = 0.2;
  const std::int64_t all = plan.kept_rank > 0 ? plan.kept[0] : 1;
  const std::int64_t step = plan.side_by_side() && plan.kept_rank == 1 ? kFewest : 1;
  const std::int64_t of_one = all > 0 ? plan.outputs / all : 0;
  const double nanoseconds = kNanosecondsOfElement * static_cast<double>(step * of_one * plan.length);
  const std::int64_t items = std::max<std::int64_t>(all / step, 1);  // the last one takes the rest
  parallel_for(items, nanoseconds, [&](std::int64_t first, std::int64_t last) {
    if (plan.kept_rank == 0) {
      run(plan, 0, 0);
      return;
    }
    ReductionPlan part = plan;
    part.kept[0] = (last == items ? all : last * step) - first * step;
    part.outputs = part.kept[0] * of_one;
    run(part, first * step * plan.kept_strides[0], first * step * of_one);
  });
}
/// Copies the elements of one reduction, which begin at `in`, densely.
void gather_reduced(const ReductionPlan& plan, const void* in, std::size_t element_size, void* to);

/// The input of a body of Reduce: passes over the elements of one reduction, or of `width` reductions side by side.
template <class In>
struct Row {
  static constexpr int kWidth = 1;
  std::int64_t n;
  const In* data;
  DIPTYCH_INLINE int width() const { return 1; }
  /// out[w]: the reduction of map(element, w) over the elements.
  template <class Combine, class T, class Map>
  DIPTYCH_INLINE void pass(const Map& map, T* out) const {
    out[0] = detail::reduce<Combine, T>(n, [&](std::int64_t row) { return map(data[row], 0); });
  }
};
template <class In>
struct Columns {
  static constexpr int kWidth = kColumns<In>;
  std::int64_t n;
  const In* tile;
  std::int64_t row_stride;
  int count;
  DIPTYCH_INLINE int width() const { return count; }
  template <class Combine, class T, class Map>
  DIPTYCH_INLINE void pass(const Map& map, T* out) const {
    // Accumulators wider than elements: in pieces that fit.
    for (int begin = 0; begin < count; begin += kColumns<T>) {
      const int piece = count - begin < kColumns<T> ? count - begin : kColumns<T>;
      const In* start = tile + begin;
      detail::reduce_columns<Combine, T>(
          n, piece, [&](std::int64_t row, int w) { return map(start[row * row_stride + w], begin + w); }, out + begin);
    }
  }
};

/// Runs `Body::run(elements, attributes, out)` for every reduction of a plan. `buffer` has room for plan->length
/// elements if the plan needs to gather them, else it is null.
template <class Body, class In, class Out>
struct Reduce {
  DIPTYCH_INLINE static void run(const ReductionPlan* plan, const In* in, Out* out, const void* attributes,
                                 In* buffer) {
    const std::int64_t n = plan->length;
    if (plan->side_by_side()) {
      const std::int64_t row_stride = plan->reduced_rank == 1 ? plan->reduced_strides[0] : 0;
      const std::int64_t columns = plan->kept[plan->kept_rank - 1];
      for (std::int64_t base = 0; base < plan->outputs; base += columns) {
        const In* start = in + plan->offset(base, plan->kept_rank, plan->kept, plan->kept_strides);
        for (std::int64_t column = 0; column < columns; column += kColumns<In>) {
          const int width = static_cast<int>(columns - column < kColumns<In> ? columns - column : kColumns<In>);
          Body::run(Columns<In>{n, start + column, row_stride, width}, attributes, out + base + column);
        }
      }
      return;
    }
    for (std::int64_t i = 0; i < plan->outputs; ++i) {
      const In* start = in + plan->offset(i, plan->kept_rank, plan->kept, plan->kept_strides);
      if (buffer != nullptr) {
        gather_reduced(*plan, start, sizeof(In), buffer);
        start = buffer;
      }
      Body::run(Row<In>{n, start}, attributes, out + i);
    }
  }
};

/// Reduces `input` over `axes` with `Body`; In and Out are the element types.
template <class Body, class In, class Out>
void run_reduction(const Operand& input, const Axes& axes, const void* attributes, Out* out) {
  const ReductionPlan whole = plan_reduction(input, axes);
  for_parts(whole, [&](const ReductionPlan& plan, std::int64_t offset, std::int64_t first) {
    StorageRef buffer;
    if (plan.needs_gather()) {
      buffer = allocate_storage(static_cast<std::size_t>(plan.length) * sizeof(In));
    }
    PerIsa<Reduce<Body, In, Out>>::active()(&plan, static_cast<const In*>(input.data) + offset, out + first, attributes,
                                            buffer ? static_cast<In*>(static_cast<void*>(buffer->data())) : nullptr);
  });
}

/// The plain reduction.
template <class Combine>
struct Fold {
  template <class Elements, class T>
  DIPTYCH_INLINE static void run(const Elements& elements, const void* /*attributes*/, T* out) {
    elements.template pass<Combine, T>([](T x, int) { return x; }, out);
  }
};

}  // namespace diptych::kernels
