// The kernels of the gradients of normalisations.

#include "framework/kernels/normalisation.h"
#include "framework/kernels/normalised_rows.h"
#include "framework/kernels/row_sums.h"
#include "framework/kernels/vector_length.h"

// Vectors never cross a call here: all bodies are inlined into one function per instruction set.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace diptych::kernels {
namespace {

/// What dy is multiplied with to get the gradient by the normalised row: a weight per column, or one for the row.
template <class T, bool per_column>
struct RowWeight {
  const T* data;

  DIPTYCH_INLINE T one(T dy, std::int64_t i) const { return dy * (per_column ? data[i] : *data); }
  template <int bytes, class Load>
  DIPTYCH_INLINE Lanes<T, bytes> lanes(const T* dy, std::int64_t i, const Load& load) const {
    if constexpr (per_column) {
      return load(dy + i) * load(data + i);
    } else {
      return load(dy + i) * *data;
    }
  }
};

/// At most kMostTogether rows, and those `ahead`; with a weight per column, each in one piece.
template <class T, bool centred, bool per_column>
struct InputGradientRows {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t ahead, std::int64_t n,
                                   const RowStatistics<T>* statistics, const T* dy, const T* x, const T* weights,
                                   Pieces pieces, T* dx) {
      const RowWeight<T, per_column> weight{weights};
      const T count = static_cast<T>(n);
      T along[kMostTogether];  // the mean of g h
      T mean[kMostTogether];   // the mean of g
      for (std::int64_t row = 0; row < rows; ++row) {
        const RowStatistics<T> s = statistics[row];
        const T* const dy_row = dy + row * n;
        const T* const x_row = x + row * n;
        if (row < ahead) {
          prefetch_row(x_row + rows * n, n);
        }
        const auto product = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
          return weight.template lanes<bytes>(dy_row, i, load) * s.normalised(load(x_row + i));
        };
        along[row] = sum_of<T, bytes>(n, product) / count;
        mean[row] = T(0);
      }
      if constexpr (centred) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const T* const dy_row = dy + row * n;
          const auto element = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
            return weight.template lanes<bytes>(dy_row, i, load);
          };
          mean[row] = sum_of<T, bytes>(n, element) / count;
        }
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const RowStatistics<T> s = statistics[row];
        if (row < ahead) {
          prefetch_row(dy + rows * n, n);
        }
        for (std::int64_t begin = 0; begin < n;
             begin += pieces.length, dy += pieces.length, x += pieces.length, dx += pieces.pitch) {
          for (std::int64_t i = 0; i < pieces.length; ++i) {
            dx[i] = s.rstd * ((weight.one(dy[i], i) - mean[row]) - s.normalised(x[i]) * along[row]);
          }
        }
      }
    }
  };
};

/// sum[i] += dy * h of `n` columns of each row.
template <class T>
struct WeightGradientRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t n, std::int64_t pitch,
                                 const RowStatistics<T>* statistics, const T* dy, const T* x, T* sum) {
    for (std::int64_t row = 0; row < rows; ++row, dy += pitch, x += pitch) {
      const RowStatistics<T> s = statistics[row];
      for (std::int64_t i = 0; i < n; ++i) {
        sum[i] += dy[i] * s.normalised(x[i]);
      }
    }
  }
};

template <class T>
struct WeightGradientOfRow {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t n, const RowStatistics<T>* statistics, const T* dy, const T* x,
                                   T* dweight) {
      const RowStatistics<T> s = *statistics;
      const auto product = [=](std::int64_t i, const auto& load) __attribute__((always_inline)) {
        return load(dy + i) * s.normalised(load(x + i));
      };
      *dweight = sum_of<T, bytes>(n, product);
    }
  };
};

template <class T, bool per_column>
auto input_gradient(bool centred) {
  return centred ? active_of<InputGradientRows<T, true, per_column>::template Of>()
                 : active_of<InputGradientRows<T, false, per_column>::template Of>();
}

/// The statistics of one channel, which is gathered: those given, or found here.
template <class T>
RowStatistics<T> statistics_of(const NormShape& shape, DType dtype, const void* given, std::int64_t channel,
                               const T* gathered) {
  if (given != nullptr) {
    return static_cast<const ChannelStatistics<T>*>(given)[channel];
  }
  NormShape row;
  row.rows = 1;
  row.columns = shape.columns;
  row.centred = shape.centred;
  row.eps = shape.eps;
  RowStatistics<T> found;
  normalise_row_statistics(row, dtype, gathered, &found);
  return found;
}

}  // namespace

void normalise_input_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, const void* weight,
                              const void* statistics, void* dx) {
  visit_wide_float(dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(x);
    const T* cotangent = static_cast<const T*>(dy);
    const T* w = static_cast<const T*>(weight);
    T* out = static_cast<T*>(dx);
    const T one = T(1);  // multiplying with it changes nothing
    const auto run_single = input_gradient<T, false>(shape.centred);
    if (!shape.by_channel) {
      const auto run = w != nullptr ? input_gradient<T, true>(shape.centred) : run_single;
      for_rows_in_parts(
          shape, dtype, in, statistics,
          [&](std::int64_t first, std::int64_t count, std::int64_t ahead, const RowStatistics<T>* of_rows) {
            const std::int64_t from = first * shape.columns;
            run(count, ahead, shape.columns, of_rows, cotangent + from, in + from, w != nullptr ? w : &one,
                {shape.columns, shape.columns}, out + from);
          });
      return;
    }
    for_channels(shape, [&](std::int64_t first, std::int64_t last) {
      const Channels<T> from(shape);
      const Channels<T> above(shape);
      for (std::int64_t channel = first; channel < last; ++channel) {
        const T* const row = from.gather(in, channel);
        const RowStatistics<T> found = statistics_of(shape, dtype, statistics, channel, row);
        run_single(1, 0, shape.columns, &found, above.gather(cotangent, channel), row,
                   w != nullptr ? w + channel : &one, pieces_of_channel(shape), out + channel * shape.plane);
      }
    });
  });
}

void normalise_weight_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x,
                               const void* statistics, void* dweight) {
  visit_wide_float(dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(x);
    const T* cotangent = static_cast<const T*>(dy);
    T* out = static_cast<T*>(dweight);
    if (!shape.by_channel) {
      const auto run = PerIsa<WeightGradientRows<T>>::active();
      std::fill_n(out, shape.columns, T(0));
      const auto columns = [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t n = end - begin;
        const Buffer<T> block(
            n);  // the sum of kMostTogether rows: adding them to the whole one by one would be less accurate
        for_rows(shape, dtype, in, statistics,
                 [&](std::int64_t first, std::int64_t count, std::int64_t /*ahead*/, const RowStatistics<T>* of_rows) {
                   if (first % kMostTogether == 0) {
                     std::fill_n(block.data(), n, T(0));
                   }
                   const std::int64_t from = first * shape.columns + begin;
                   run(count, n, shape.columns, of_rows, cotangent + from, in + from, block.data());
                   const std::int64_t done = first + count;
                   if (done % kMostTogether == 0 || done == shape.rows) {
                     for (std::int64_t i = 0; i < n; ++i) {
                       out[begin + i] += block.data()[i];
                     }
                   }
                 });
      };
      if (statistics == nullptr) {  // each part would compute those of all rows
        columns(0, shape.columns);
      } else {
        constexpr std::int64_t kLine = 64 / sizeof(T);
        parallel_for((shape.columns + kLine - 1) / kLine,
                     kLine * kNanosecondsOfNormalised * static_cast<double>(shape.rows),
                     [&](std::int64_t begin, std::int64_t end) {
                       columns(begin * kLine, std::min(end * kLine, shape.columns));
                     });
      }
      return;
    }
    const auto run = active_of<WeightGradientOfRow<T>::template Of>();
    for_channels(shape, [&](std::int64_t first, std::int64_t last) {
      const Channels<T> from(shape);
      const Channels<T> above(shape);
      for (std::int64_t channel = first; channel < last; ++channel) {
        const T* const row = from.gather(in, channel);
        const RowStatistics<T> found = statistics_of(shape, dtype, statistics, channel, row);
        run(shape.columns, &found, above.gather(cotangent, channel), row, out + channel);
      }
    });
  });
}

}  // namespace diptych::kernels
