#include "framework/kernels/normalisation.h"

#include "framework/kernels/normalised_rows.h"
#include "framework/kernels/row_sums.h"
#include "framework/kernels/vector_length.h"
#include "framework/math/scalar_math.h"

// Vectors never cross a call here: all bodies are inlined into one function per instruction set.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace diptych::kernels {
namespace {

/// Of rows that others follow, `ahead`. `variances` may be null.
template <class T, bool centred>
struct StatisticsOfRows {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t ahead, std::int64_t n, T eps, const T* x,
                                   RowStatistics<T>* found, T* variances) {
      const T count = static_cast<T>(n);
      for (std::int64_t row = 0; row < rows; ++row) {
        found[row] = {};
      }
      if constexpr (centred) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* const of_row = x + row * n;
          const auto element = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
            return load(of_row + i);
          };
          found[row].mean = sum_of<T, bytes>(n, element) / count;
        }
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* const of_row = x + row * n;
          const T mean = found[row].mean;
          const auto distance = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
            return load(of_row + i) - mean;
          };
          found[row].shift = sum_of<T, bytes>(n, distance) / count;
        }
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const of_row = x + row * n;
        const T mean = centred ? found[row].mean : T(0);
        const T shift = centred ? found[row].shift : T(0);
        if (row < ahead) {
          prefetch_row(of_row + rows * n, n);
        }
        const auto square = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
          const Lanes<T, bytes> distance = (load(of_row + i) - mean) - shift;
          return distance * distance;
        };
        const T variance = sum_of<T, bytes>(n, square) / count;
        found[row].rstd = T(1) / math::sqrt(variance + eps);
        if (variances != nullptr) {
          variances[row] = variance;
        }
      }
    }
  };
};

/// `weight`, `bias`: of each column, or null.
template <class T>
struct NormaliseRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, const RowStatistics<T>* statistics, const T* x,
                                 const T* weight, const T* bias, T* y) {
    for (std::int64_t row = 0; row < rows; ++row, x += n, y += n) {
      const RowStatistics<T> s = statistics[row];
      if (weight == nullptr) {
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] = s.normalised(x[i]);
        }
      } else if (bias == nullptr) {
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] = s.normalised(x[i]) * weight[i];
        }
      } else {
        for (std::int64_t i = 0; i < n; ++i) {
          y[i] = s.normalised(x[i]) * weight[i] + bias[i];
        }
      }
    }
  }
};

template <class T>
struct NormaliseRow {
  /// `x_pitch`: from one piece of x to the next. `weight` and `bias`: of the row. `weight` may be null, and then `bias`
  /// isn't read.
  DIPTYCH_INLINE static void run(std::int64_t n, const RowStatistics<T>* of_row, const T* x, std::int64_t x_pitch,
                                 const T* weight, const T* bias, Pieces pieces, T* y) {
    const RowStatistics<T> s = *of_row;
    const T b = bias != nullptr ? *bias : T(0);
    for (std::int64_t begin = 0; begin < n; begin += pieces.length, x += x_pitch, y += pieces.pitch) {
      if (weight == nullptr) {
        for (std::int64_t i = 0; i < pieces.length; ++i) {
          y[i] = s.normalised(x[i]);
        }
      } else {
        for (std::int64_t i = 0; i < pieces.length; ++i) {
          y[i] = s.normalised(x[i]) * *weight + b;
        }
      }
    }
  }
};

template <class T>
auto statistics_of_rows(bool centred) {
  return centred ? active_of<StatisticsOfRows<T, true>::template Of>()
                 : active_of<StatisticsOfRows<T, false>::template Of>();
}

}  // namespace

void normalise(const NormShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
               const void* statistics, void* y) {
  visit_wide_float(dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(x);
    const T* w = static_cast<const T*>(weight);
    const T* b = static_cast<const T*>(bias);
    T* out = static_cast<T*>(y);
    const auto run = PerIsa<NormaliseRows<T>>::active();
    if (!shape.by_channel) {
      for_rows_in_parts(
          shape, dtype, in, statistics,
          [&](std::int64_t first, std::int64_t count, std::int64_t /*ahead*/, const RowStatistics<T>* of_rows) {
            const std::int64_t from = first * shape.columns;
            run(count, shape.columns, of_rows, in + from, w, b, out + from);
          });
      return;
    }
    const auto find = statistics_of_rows<T>(shape.centred);
    const auto run_row = PerIsa<NormaliseRow<T>>::active();
    const Pieces pieces = pieces_of_channel(shape);
    const auto run_channel = [&](std::int64_t channel, const RowStatistics<T>& found, const T* row,
                                 std::int64_t pitch) {
      run_row(shape.columns, &found, row, pitch, w != nullptr ? w + channel : nullptr,
              b != nullptr ? b + channel : nullptr, pieces, out + channel * shape.plane);
    };
    if (statistics != nullptr) {
      const auto* const found = static_cast<const ChannelStatistics<T>*>(statistics);
      for_channels(shape, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t channel = first; channel < last; ++channel) {
          run_channel(channel, found[channel], in + channel * shape.plane, shape.rows * shape.plane);
        }
      });
      return;
    }
    for_channels(shape, [&](std::int64_t first, std::int64_t last) {
      const Channels<T> from(shape);
      for (std::int64_t channel = first; channel < last; ++channel) {
        const T* const row = from.gather(in, channel);
        RowStatistics<T> found;
        find(1, 0, shape.columns, static_cast<T>(shape.eps), row, &found, nullptr);
        run_channel(channel, found, row, pieces.length);
      }
    });
  });
}

void find_row_statistics(const NormShape& shape, DType dtype, const void* x, std::int64_t ahead, void* statistics) {
  visit_wide_float(dtype, [&]<class T>() {
    statistics_of_rows<T>(shape.centred)(shape.rows, ahead, shape.columns, static_cast<T>(shape.eps),
                                         static_cast<const T*>(x), static_cast<RowStatistics<T>*>(statistics), nullptr);
  });
}

void normalise_row_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics) {
  visit_wide_float(dtype, [&]<class T>() {
    const auto find = statistics_of_rows<T>(shape.centred);
    const T* in = static_cast<const T*>(x);
    auto* const found = static_cast<RowStatistics<T>*>(statistics);
    const std::int64_t together = rows_together<T>(shape.columns);
    const double of_row = kNanosecondsOfNormalised * static_cast<double>(shape.columns);
    parallel_for(shape.rows, of_row, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += together) {
        const std::int64_t count = std::min(together, end - first);
        find(count, rows_ahead<T>(shape.columns, first, count, end), shape.columns, static_cast<T>(shape.eps),
             in + first * shape.columns, found + first, nullptr);
      }
    });
  });
}

void normalise_channel_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics) {
  visit_wide_float(dtype, [&]<class T>() {
    const auto find = statistics_of_rows<T>(shape.centred);
    auto* const found = static_cast<ChannelStatistics<T>*>(statistics);
    for_channels(shape, [&](std::int64_t first, std::int64_t last) {
      const Channels<T> from(shape);
      for (std::int64_t channel = first; channel < last; ++channel) {
        find(1, 0, shape.columns, static_cast<T>(shape.eps), from.gather(static_cast<const T*>(x), channel),
             &found[channel], &found[channel].variance);
      }
    });
  });
}

}  // namespace diptych::kernels
