#include "framework/kernels/normalisation.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "framework/kernels/reduction.h"
#include "framework/kernels/runs.h"
#include "framework/kernels/vector_length.h"
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

template <bool centred, int bytes, class T>
DIPTYCH_INLINE RowStatistics<T> statistics_of(const T* x, std::int64_t n, T eps) {
  RowStatistics<T> row;
  const T count = static_cast<T>(n);
  if constexpr (centred) {
    const T mean =
        sum_of<T, bytes>(
            n, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(x + i); }) /
        count;
    const T shift =
        sum_of<T, bytes>(
            n, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(x + i) - mean; }) /
        count;
    const T squares = sum_of<T, bytes>(
        n, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
          const Lanes<T, bytes> distance = (load(x + i) - mean) - shift;
          return distance * distance;
        });
    row.mean = mean;
    row.shift = shift;
    row.variance = squares / count;
  } else {
    row.variance = sum_of<T, bytes>(
                       n, [=](std::int64_t i, const auto& load)
                              __attribute__((always_inline)) { return load(x + i) * load(x + i); }) /
                   count;
  }
  row.rstd = T(1) / math::sqrt(row.variance + eps);
  return row;
}

/// The factor of a row: one weight per element, or one for all. Null: none.
template <class T>
struct RowWeight {
  const T* data;
  bool single;
};

template <int bytes, class T, bool centred>
struct NormaliseRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* x, const RowWeight<T>* weight,
                                 const T* bias, T* y) {
    const T* w = weight->data;
    for (std::int64_t row = 0; row < rows; ++row, x += n, y += n) {
      const RowStatistics<T> s = statistics_of<centred, bytes>(x, n, eps);
      if (w == nullptr) {
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] = s.normalised(x[i]);
        }
      } else if (weight->single) {
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
  }
};

template <int bytes, class T, bool centred>
struct InputGradientRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* dy, const T* x,
                                 const RowWeight<T>* weight, T* dx) {
    for (std::int64_t row = 0; row < rows; ++row, dy += n, x += n, dx += n) {
      const RowStatistics<T> s = statistics_of<centred, bytes>(x, n, eps);
      const T* w = weight->data;
      if (w == nullptr) {
        finish(
            n, s, x, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(dy + i); }, dx);
      } else if (weight->single) {
        const T scale = *w;
        finish(
            n, s,
            x, [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(dy + i) * scale; },
            dx);
      } else {
        finish(
            n, s, x,
            [=](std::int64_t i, const auto& load) __attribute__((always_inline)) { return load(dy + i) * load(w + i); },
            dx);
      }
    }
  }

 private:
  template <class G>
  DIPTYCH_INLINE static void finish(std::int64_t n, const RowStatistics<T>& s, const T* x, const G& g, T* dx) {
    const T count = static_cast<T>(n);
    const T along = sum_of<T, bytes>(
                        n, [=](std::int64_t i, const auto& load)
                               __attribute__((always_inline)) { return g(i, load) * s.normalised(load(x + i)); }) /
                    count;
    T mean = T(0);
    if constexpr (centred) {
      mean = sum_of<T, bytes>(n, g) / count;
    }
    const auto one = [](const T* from) __attribute__((always_inline)) { return *from; };
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] = s.rstd * ((g(i, one) - mean) - s.normalised(x[i]) * along);
    }
  }
};

/// dweight[i] += the sum over rows of dy * h, `block` of them at a time so that the sum stays accurate.
template <int bytes, class T, bool centred>
struct WeightGradientRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, T eps, const T* dy, const T* x, T* block,
                                 T* dweight) {
    constexpr std::int64_t kRowsOfBlock = 64;
    for (std::int64_t begin = 0; begin < rows; begin += kRowsOfBlock) {
      for (std::int64_t i = 0; i < n; ++i) {
        block[i] = T(0);
      }
      for (std::int64_t row = begin; row < std::min(rows, begin + kRowsOfBlock); ++row, dy += n, x += n) {
        const RowStatistics<T> s = statistics_of<centred, bytes>(x, n, eps);
        for (std::int64_t i = 0; i < n; ++i) {
          block[i] += dy[i] * s.normalised(x[i]);
        }
      }
      for (std::int64_t i = 0; i < n; ++i) {
        dweight[i] += block[i];
      }
    }
  }
};

template <int bytes, class T, bool centred>
struct WeightGradientOfRow {
  DIPTYCH_INLINE static void run(std::int64_t n, T eps, const T* dy, const T* x, T* dweight) {
    const RowStatistics<T> s = statistics_of<centred, bytes>(x, n, eps);
    *dweight = sum_of<T, bytes>(
        n, [=](std::int64_t i, const auto& load)
               __attribute__((always_inline)) { return load(dy + i) * s.normalised(load(x + i)); });
  }
};

template <int bytes, class T>
struct StatisticsOfRow {
  DIPTYCH_INLINE static void run(std::int64_t n, const T* x, T* mean, T* variance) {
    const RowStatistics<T> s = statistics_of<true, bytes>(x, n, T(0));
    *mean = s.mean + s.shift;
    *variance = s.variance;
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
  if (dtype == DType::float32) {
    shape.centred ? fn.template operator()<float, true>() : fn.template operator()<float, false>();
  } else {
    shape.centred ? fn.template operator()<double, true>() : fn.template operator()<double, false>();
  }
}

}  // namespace

void normalise(const NormShape& shape, DType dtype, const void* x, const void* weight, const void* bias, void* y) {
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
      run(shape.rows, shape.columns, eps, in, &of_columns, b, out);
      return;
    }
    const Channels<T> from(shape);
    const Channels<T> to(shape);
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      const RowWeight<T> of_row{w != nullptr ? w + channel : nullptr, true};
      run(1, shape.columns, eps, from.gather(in, channel), &of_row, b != nullptr ? b + channel : nullptr, to.row());
      to.scatter(out, channel);
    }
  });
}

void normalise_input_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, const void* weight,
                              void* dx) {
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
      run(shape.rows, shape.columns, eps, cotangent, in, &of_columns, out);
      return;
    }
    const Channels<T> from(shape);
    const Channels<T> above(shape);
    const Channels<T> to(shape);
    for (std::int64_t channel = 0; channel < shape.rows; ++channel) {
      const RowWeight<T> of_row{w != nullptr ? w + channel : nullptr, true};
      run(1, shape.columns, eps, above.gather(cotangent, channel), from.gather(in, channel), &of_row, to.row());
      to.scatter(out, channel);
    }
  });
}

void normalise_weight_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, void* dweight) {
  specialise(shape, dtype, [&]<class T, bool centred>() {
    const T* in = static_cast<const T*>(x);
    const T* cotangent = static_cast<const T*>(dy);
    T* out = static_cast<T*>(dweight);
    const T eps = static_cast<T>(shape.eps);
    if (!shape.by_channel) {
      const Buffer<T> block(shape.columns);
      std::fill_n(out, shape.columns, T(0));
      active_of<WeightGradientRows<16, T, centred>, WeightGradientRows<32, T, centred>,
                WeightGradientRows<64, T, centred>>()(shape.rows, shape.columns, eps, cotangent, in, block.data(), out);
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
