#include "framework/kernels/normalisation.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "framework/kernels/reduction.h"
#include "framework/kernels/runs.h"
#include "framework/kernels/vector_length.h"
#include "framework/kernels/wide_float.h"
#include "framework/math/scalar_math.h"

// Vectors never cross a call here: all bodies are inlined into one function per instruction set.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace diptych::kernels {
namespace {

template <class T>
struct RowStatistics {
  T mean = T(0);
  T shift = T(0);  ///< the mean of x - mean: the rounding error of the mean
  T variance = T(0);
  T rstd = T(0);

  /// For an element or a vector of elements.
  template <class X>
  DIPTYCH_INLINE X normalised(X x) const {
    return ((x - mean) - shift) * rstd;
  }
};

/// Elements that are loaded, processed and added together, in vectors of `bytes` bytes: those of the instruction set.
/// Longer ones are kept in memory by the compiler, which takes several times as long.
template <class T, int bytes>
struct Lanes {
  static constexpr int kParts = static_cast<int>(kLanes * sizeof(T)) / bytes;

  using Part = detail::Vector<T, bytes / static_cast<int>(sizeof(T))>;

  Part part[kParts];

  // Without loops, so that the parts become registers.
  template <class Fn>
  DIPTYCH_INLINE static Lanes each(const Fn& fn) {
    return [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { return Lanes{{fn(i)...}}; }
    (std::make_integer_sequence<int, kParts>());
  }
  DIPTYCH_INLINE friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] + b.part[i]; });
  }
  DIPTYCH_INLINE friend Lanes operator*(const Lanes& a, const Lanes& b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] * b.part[i]; });
  }
  DIPTYCH_INLINE friend Lanes operator-(const Lanes& a, T b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] - b; });
  }
  DIPTYCH_INLINE friend Lanes operator*(const Lanes& a, T b) {
    return each([&](int i) __attribute__((always_inline)) { return a.part[i] * b; });
  }
};

template <class T, int bytes>
struct LoadWhole {
  DIPTYCH_INLINE Lanes<T, bytes> operator()(const T* from) const {
    return Lanes<T, bytes>::each([&](int i) __attribute__((always_inline)) {
      typename Lanes<T, bytes>::Part part;
      std::memcpy(&part, from + i * bytes / static_cast<int>(sizeof(T)), sizeof(part));
      return part;
    });
  }
};
template <class T, int bytes>
struct LoadPart {
  std::int64_t count;
  DIPTYCH_INLINE Lanes<T, bytes> operator()(const T* from) const {
    T lanes[kLanes] = {};
    for (std::int64_t lane = 0; lane < count; ++lane) {
      lanes[lane] = from[lane];
    }
    return LoadWhole<T, bytes>()(lanes);
  }
};

/// The sum over i = begin, begin + kLanes, ... below n of the lanes of term(i, load), where load(p) gives the elements
/// from p on. Four chains hide the latency of an addition.
template <class T, int bytes, class Term>
DIPTYCH_INLINE T sum_of_block(std::int64_t begin, std::int64_t n, const Term& term) {
  constexpr LoadWhole<T, bytes> whole;
  Lanes<T, bytes> a{};
  Lanes<T, bytes> b{};
  Lanes<T, bytes> c{};
  Lanes<T, bytes> d{};
  std::int64_t i = begin;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = a + term(i, whole);
    b = b + term(i + kLanes, whole);
    c = c + term(i + 2 * kLanes, whole);
    d = d + term(i + 3 * kLanes, whole);
  }
  a = (a + c) + (b + d);
  for (; i + kLanes <= n; i += kLanes) {
    a = a + term(i, whole);
  }
  T lanes[kLanes];
  std::memcpy(lanes, &a, sizeof(a));
  if (i < n) {
    const Lanes<T, bytes> v = term(i, LoadPart<T, bytes>{n - i});
    T last[kLanes];
    std::memcpy(last, &v, sizeof(v));
    for (std::int64_t lane = 0; lane < n - i; ++lane) {
      lanes[lane] += last[lane];
    }
  }
  return detail::combine_lanes<SumCombine, T>(lanes);
}

/// Blocks keep the chains short, and thus the sum accurate.
template <class T, int bytes, class Term>
DIPTYCH_INLINE T sum_of(std::int64_t n, const Term& term) {
  T total = T(0);
  for (std::int64_t begin = 0; begin < n; begin += 4 * kBlock) {
    const T of_block = sum_of_block<T, bytes>(begin, std::min(n, begin + 4 * kBlock), term);
    total = begin == 0 ? of_block : total + of_block;  // 0 + -0 would change the sign of zero
  }
  return total;
}

/// Rows whose sums are computed in turn, each of them for all rows: what a short row waits for at the end of a sum
/// (additions of lanes, a quotient, a root) takes as long as the sum itself, and the next row's sum hides it.
constexpr int kMostTogether = 2;
template <class T>
std::int64_t rows_together(std::int64_t n) {
  constexpr std::int64_t kShortRow = 2048;  // bytes; the rows of dy, x and dx stay in the L1 cache
  return n * static_cast<std::int64_t>(sizeof(T)) <= kShortRow ? kMostTogether : 1;
}

/// Fetches a row that is read soon: rows that are processed together are read faster than the hardware looks ahead.
template <class T>
DIPTYCH_INLINE void fetch(const T* row, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < n; i += kLine) {
    __builtin_prefetch(row + i);
  }
}

template <class T>
using RowsStatistics = RowStatistics<T>[kMostTogether];

/// Of `rows` rows of x, at most kMostTogether.
template <bool centred, int bytes, class T>
DIPTYCH_INLINE void find_statistics(std::int64_t rows, const T* x, std::int64_t n, T eps, RowsStatistics<T>& found) {
  const T count = static_cast<T>(n);
  const auto each = [ =, &found ](const auto& fn) __attribute__((always_inline)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      fn(found[row], x + row * n);
    }
  };
  if constexpr (centred) {
    each([=](RowStatistics<T> & s, const T* of_row) __attribute__((always_inline)) {
      s.mean =
          sum_of<T, bytes>(
              n, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(of_row + i); }) /
          count;
    });
    each([=](RowStatistics<T> & s, const T* of_row) __attribute__((always_inline)) {
      const T mean = s.mean;
      s.shift = sum_of<T, bytes>(
                    n, [=](std::int64_t i, const auto& load)
                           __attribute__((always_inline)) { return load(of_row + i) - mean; }) /
                count;
    });
  }
  each([=](RowStatistics<T> & s, const T* of_row) __attribute__((always_inline)) {
    const T mean = s.mean;
    const T shift = s.shift;
    s.variance = sum_of<T, bytes>(
                     n,
                     [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
                       const Lanes<T, bytes> x_i = load(of_row + i);
                       if constexpr (centred) {
                         const Lanes<T, bytes> distance = (x_i - mean) - shift;
                         return distance * distance;
                       } else {
                         return x_i * x_i;
                       }
                     }) /
                 count;
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    found[row].rstd = T(1) / math::sqrt(found[row].variance + eps);
  }
}

/// What normalise_row_statistics() has written of a row and those after it; null: nothing.
constexpr std::int64_t kStatisticsPerRow = 3;
template <class T>
const T* given_at(const T* given, std::int64_t row) {
  return given != nullptr ? given + row * kStatisticsPerRow : nullptr;
}

template <bool centred, int bytes, class T>
DIPTYCH_INLINE void find_statistics(std::int64_t rows, const T* x, std::int64_t n, T eps, const T* given,
                                    RowsStatistics<T>& found) {
  if (given == nullptr) {
    find_statistics<centred, bytes>(rows, x, n, eps, found);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row, given += kStatisticsPerRow) {
    found[row].mean = given[0];
    found[row].shift = given[1];
    found[row].rstd = given[2];
  }
}

/// The factor of a row: one weight per element, or one for all. Null: none.
template <class T>
struct RowWeight {
  const T* data;
  bool single;
};

/// Calls sums(first, count) for rows that are processed together, then each(row, row - first) for every one of them,
/// after fetch(row) of one of the next rows.
template <class T, class Sums, class Fetch, class Each>
DIPTYCH_INLINE void for_rows(std::int64_t rows, std::int64_t n, const Sums& sums, const Fetch& fetch,
                             const Each& each) {
  const std::int64_t together = rows_together<T>(n);
  for (std::int64_t first = 0; first < rows; first += together) {
    const std::int64_t count = std::min(together, rows - first);
    sums(first, count);
    const bool has_next = together > 1 && first + 2 * together <= rows;
    for (std::int64_t k = 0; k < count; ++k) {
      if (has_next) {
        fetch(first + together + k);
      }
      each(first + k, k);
    }
  }
}

template <int bytes, class T, bool centred>
struct NormaliseRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* x, const RowWeight<T>* weight,
                                 const T* bias, const T* given, T* y) {
    RowsStatistics<T> statistics;
    for_rows<T>(
        rows, n,
        [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
          find_statistics<centred, bytes>(count, x + first * n, n, eps, given_at(given, first), statistics);
        },
        [&](std::int64_t row) __attribute__((always_inline)) { fetch(x + row * n, n); },
        [&](std::int64_t row, std::int64_t k)
            __attribute__((always_inline)) { finish(n, statistics[k], x + row * n, *weight, bias, y + row * n); });
  }

 private:
  DIPTYCH_INLINE static void finish(std::int64_t n, const RowStatistics<T> s, const T* x, const RowWeight<T>& weight,
                                    const T* bias, T* y) {
    const T* w = weight.data;
    if (w == nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = s.normalised(x[i]);
      }
    } else if (weight.single) {
      const T scale = *w;
      const T offset = bias != nullptr ? *bias : T(0);
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = s.normalised(x[i]) * scale + offset;
      }
    } else if (bias != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = s.normalised(x[i]) * w[i] + bias[i];
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = s.normalised(x[i]) * w[i];
      }
    }
  }
};

template <int bytes, class T, bool centred>
struct InputGradientRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* dy, const T* x,
                                 const RowWeight<T>* weight, const T* given, T* dx) {
    const T* w = weight->data;
    if (w == nullptr) {
      of_rows(
          rows, n, eps, dy, x, given,
          [=](const T* dy_row, std::int64_t i, const auto& load)
              __attribute__((always_inline)) { return load(dy_row + i); },
          dx);
    } else if (weight->single) {
      const T scale = *w;
      of_rows(
          rows, n, eps, dy, x, given,
          [=](const T* dy_row, std::int64_t i, const auto& load)
              __attribute__((always_inline)) { return load(dy_row + i) * scale; },
          dx);
    } else {
      of_rows(
          rows, n, eps, dy, x, given,
          [=](const T* dy_row, std::int64_t i, const auto& load)
              __attribute__((always_inline)) { return load(dy_row + i) * load(w + i); },
          dx);
    }
  }

 private:
  /// Sums of a row, divided by its length: of g h and of g.
  struct Means {
    T along = T(0);
    T mean = T(0);
  };

  /// g(dy of a row, i, load): elements from i on of the gradient by the normalised row.
  template <class G>
  DIPTYCH_INLINE static void of_rows(std::int64_t rows, std::int64_t n, T eps, const T* dy, const T* x, const T* given,
                                     const G& g, T* dx) {
    RowsStatistics<T> statistics;
    Means means[kMostTogether];
    const auto one = [](const T* from) __attribute__((always_inline)) { return *from; };
    for_rows<T>(
        rows, n,
        [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
          find_statistics<centred, bytes>(count, x + first * n, n, eps, given_at(given, first), statistics);
          find_means(count, n, dy + first * n, x + first * n, g, statistics, means);
        },
        [&](std::int64_t row) __attribute__((always_inline)) {
          fetch(x + row * n, n);
          fetch(dy + row * n, n);
        },
        [&](std::int64_t row, std::int64_t k) __attribute__((always_inline)) {
          const RowStatistics<T> s = statistics[k];
          const Means m = means[k];
          const T* dy_row = dy + row * n;
          const T* x_row = x + row * n;
          T* dx_row = dx + row * n;
          for (std::int64_t i = 0; i < n; ++i) {
            dx_row[i] = s.rstd * ((g(dy_row, i, one) - m.mean) - s.normalised(x_row[i]) * m.along);
          }
        });
  }

  template <class G>
  DIPTYCH_INLINE static void find_means(std::int64_t rows, std::int64_t n, const T* dy, const T* x, const G& g,
                                        const RowsStatistics<T>& statistics, Means* means) {
    const T count = static_cast<T>(n);
    for (std::int64_t row = 0; row < rows; ++row) {
      const RowStatistics<T> s = statistics[row];
      const T* dy_row = dy + row * n;
      const T* x_row = x + row * n;
      means[row].along =
          sum_of<T, bytes>(
              n, [=](std::int64_t i, const auto& load)
                     __attribute__((always_inline)) { return g(dy_row, i, load) * s.normalised(load(x_row + i)); }) /
          count;
    }
    if constexpr (centred) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* dy_row = dy + row * n;
        means[row].mean = sum_of<T, bytes>(
                              n, [=](std::int64_t i, const auto& load)
                                     __attribute__((always_inline)) { return g(dy_row, i, load); }) /
                          count;
      }
    }
  }
};

/// dweight[i] += the sum over rows of dy * h, `block` of them at a time so that the sum stays accurate.
template <int bytes, class T, bool centred>
struct WeightGradientRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* dy, const T* x, T* block,
                                 const T* given, T* dweight) {
    constexpr std::int64_t kRowsOfBlock = 64;
    RowsStatistics<T> statistics;
    for_rows<T>(
        rows, n,
        [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
          find_statistics<centred, bytes>(count, x + first * n, n, eps, given_at(given, first), statistics);
        },
        [&](std::int64_t row) __attribute__((always_inline)) {
          fetch(x + row * n, n);
          fetch(dy + row * n, n);
        },
        [&](std::int64_t row, std::int64_t k) __attribute__((always_inline)) {
          const RowStatistics<T> s = statistics[k];
          const T* dy_row = dy + row * n;
          const T* x_row = x + row * n;
          if (row % kRowsOfBlock == 0) {
            for (std::int64_t i = 0; i < n; ++i) {
              block[i] = T(0);
            }
          }
          for (std::int64_t i = 0; i < n; ++i) {
            block[i] += dy_row[i] * s.normalised(x_row[i]);
          }
          if ((row + 1) % kRowsOfBlock == 0 || row + 1 == rows) {
            for (std::int64_t i = 0; i < n; ++i) {
              dweight[i] += block[i];
            }
          }
        });
  }
};

template <int bytes, class T, bool centred>
struct WeightGradientOfRow {
  DIPTYCH_INLINE static void run(std::int64_t n, T eps, const T* dy, const T* x, T* dweight) {
    RowsStatistics<T> statistics;
    find_statistics<centred, bytes>(1, x, n, eps, statistics);
    const RowStatistics<T> s = statistics[0];
    *dweight = sum_of<T, bytes>(
        n, [=](std::int64_t i, const auto& load)
               __attribute__((always_inline)) { return load(dy + i) * s.normalised(load(x + i)); });
  }
};

template <int bytes, class T, bool centred>
struct StatisticsOfRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* x, T* found) {
    RowsStatistics<T> statistics;
    for_rows<T>(
        rows, n,
        [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
          find_statistics<centred, bytes>(count, x + first * n, n, eps, statistics);
        },
        [&](std::int64_t row) __attribute__((always_inline)) { fetch(x + row * n, n); },
        [&](std::int64_t row, std::int64_t k) __attribute__((always_inline)) {
          T* const of_row = found + row * kStatisticsPerRow;
          of_row[0] = statistics[k].mean;
          of_row[1] = statistics[k].shift;
          of_row[2] = statistics[k].rstd;
        });
  }
};

template <int bytes, class T>
struct StatisticsOfRow {
  DIPTYCH_INLINE static void run(std::int64_t n, const T* x, T* mean, T* variance) {
    RowsStatistics<T> statistics;
    find_statistics<true, bytes>(1, x, n, T(0), statistics);
    *mean = statistics[0].mean + statistics[0].shift;
    *variance = statistics[0].variance;
  }
};

/// One channel of [batch, channels, plane] as a dense row.
template <class T>
class Channels {
 public:
  explicit Channels(const NormShape& shape) : shape_(shape), row_(shape.columns) {}

  const T* gather(const T* x, std::int64_t channel) const {
    x += channel * shape_.plane;
    if (shape_.batch == 1) {
      return x;
    }
    for (std::int64_t image = 0; image < shape_.batch; ++image) {
      std::copy_n(x + image * shape_.rows * shape_.plane, shape_.plane, row_.data() + image * shape_.plane);
    }
    return row_.data();
  }
  T* row() const { return row_.data(); }
  void scatter(T* y, std::int64_t channel) const {
    y += channel * shape_.plane;
    for (std::int64_t image = 0; image < shape_.batch; ++image) {
      std::copy_n(row_.data() + image * shape_.plane, shape_.plane, y + image * shape_.rows * shape_.plane);
    }
  }

 private:
  const NormShape& shape_;
  Buffer<T> row_;
};

/// Calls `fn.template operator()<T, centred>()`; does nothing for empty tensors.
template <class Fn>
void specialise(const NormShape& shape, DType dtype, const Fn& fn) {
  visit_wide_float(dtype, [&]<class T>() {
    shape.centred ? fn.template operator()<T, true>() : fn.template operator()<T, false>();
  });
}

}  // namespace

void normalise(const NormShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
               const void* row_statistics, void* y) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    const T* in = static_cast<const T*>(x);
    const T* w = static_cast<const T*>(weight);
    const T* b = static_cast<const T*>(bias);
    T* out = static_cast<T*>(y);
    const auto run =
        active_of<NormaliseRows<16, T, centred>, NormaliseRows<32, T, centred>, NormaliseRows<64, T, centred>>();
    const T eps = static_cast<T>(shape.eps);
    if (!shape.by_channel) {
      const RowWeight<T> of_columns{w, false};
      run(shape.rows, shape.columns, eps, in, &of_columns, b, static_cast<const T*>(row_statistics), out);
      return;
    }
    const Channels<T> from(shape);
    const Channels<T> to(shape);
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      const RowWeight<T> of_row{w != nullptr ? w + channel : nullptr, true};
      run(1, shape.columns, eps, from.gather(in, channel), &of_row, b != nullptr ? b + channel : nullptr, nullptr,
          to.row());
      to.scatter(out, channel);
    }
  });
}

void normalise_input_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, const void* weight,
                              const void* row_statistics, void* dx) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    const T* in = static_cast<const T*>(x);
    const T* cotangent = static_cast<const T*>(dy);
    const T* w = static_cast<const T*>(weight);
    T* out = static_cast<T*>(dx);
    const auto run = active_of<InputGradientRows<16, T, centred>, InputGradientRows<32, T, centred>,
                               InputGradientRows<64, T, centred>>();
    const T eps = static_cast<T>(shape.eps);
    if (!shape.by_channel) {
      const RowWeight<T> of_columns{w, false};
      run(shape.rows, shape.columns, eps, cotangent, in, &of_columns, static_cast<const T*>(row_statistics), out);
      return;
    }
    const Channels<T> from(shape);
    const Channels<T> above(shape);
    const Channels<T> to(shape);
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      const RowWeight<T> of_row{w != nullptr ? w + channel : nullptr, true};
      run(1, shape.columns, eps, above.gather(cotangent, channel), from.gather(in, channel), &of_row, nullptr,
          to.row());
      to.scatter(out, channel);
    }
  });
}

void normalise_weight_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x,
                               const void* row_statistics, void* dweight) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    const T* in = static_cast<const T*>(x);
    const T* cotangent = static_cast<const T*>(dy);
    T* out = static_cast<T*>(dweight);
    const T eps = static_cast<T>(shape.eps);
    if (!shape.by_channel) {
      const Buffer<T> block(shape.columns);
      std::fill_n(out, shape.columns, T(0));
      active_of<WeightGradientRows<16, T, centred>, WeightGradientRows<32, T, centred>,
                WeightGradientRows<64, T, centred>>()(shape.rows, shape.columns, eps, cotangent, in, block.data(),
                                                      static_cast<const T*>(row_statistics), out);
      return;
    }
    const Channels<T> from(shape);
    const Channels<T> above(shape);
    const auto run = active_of<WeightGradientOfRow<16, T, centred>, WeightGradientOfRow<32, T, centred>,
                               WeightGradientOfRow<64, T, centred>>();
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      run(shape.columns, eps, above.gather(cotangent, channel), from.gather(in, channel), out + channel);
    }
  });
}

void normalise_row_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    active_of<StatisticsOfRows<16, T, centred>, StatisticsOfRows<32, T, centred>, StatisticsOfRows<64, T, centred>>()(
        shape.rows, shape.columns, static_cast<T>(shape.eps), static_cast<const T*>(x), static_cast<T*>(statistics));
  });
}

void normalise_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    T* out = static_cast<T*>(statistics);
    const Channels<T> from(shape);
    const auto run = active_of<StatisticsOfRow<16, T>, StatisticsOfRow<32, T>, StatisticsOfRow<64, T>>();
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      run(shape.columns, from.gather(static_cast<const T*>(x), channel), out + channel, out + shape.rows + channel);
    }
  });
}

}  // namespace diptych::kernels
