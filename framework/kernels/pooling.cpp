#include "framework/kernels/pooling.h"

#include <limits>
#include <type_traits>

#include "framework/core/parallel.h"
#include "framework/kernels/runs.h"
#include "framework/kernels/wide_float.h"

namespace diptych::kernels {
namespace {

/// The inputs begin, begin + step, ... below end that output `o` of an axis reads, excluding padding.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t step;
};
Span span_of(const WindowAxis& axis, bool adaptive, std::int64_t o) {
  if (adaptive) {
    return {o * axis.input / axis.output, ((o + 1) * axis.input + axis.output - 1) / axis.output, 1};
  }
  const std::int64_t first = o * axis.stride - axis.before;
  const std::int64_t skipped = first < 0 ? (-first + axis.dilation - 1) / axis.dilation : 0;
  return {first + skipped * axis.dilation, std::min(axis.input, first + (axis.kernel - 1) * axis.dilation + 1),
          axis.dilation};
}

/// The number of cells of output `o` along an axis that a mean counts.
std::int64_t count_of(const PoolShape& shape, const WindowAxis& axis, std::int64_t after, std::int64_t o) {
  const Span inside = span_of(axis, shape.adaptive, o);
  if (shape.adaptive || !shape.count_padding) {
    return std::max<std::int64_t>(inside.end - inside.begin, 0);
  }
  const std::int64_t first = o * axis.stride - axis.before;
  return std::min(first + axis.kernel, axis.input + after) - first;
}

template <class T>
bool beats(T challenger, T champion) {
  return challenger > champion || (challenger != challenger && champion == champion);
}

/// The index in the plane of the window's largest element, or -1.
template <class T>
std::int64_t winner(const T* plane, std::int64_t width, const Span& rows, const Span& columns) {
  std::int64_t best = -1;
  for (std::int64_t y = rows.begin; y < rows.end; y += rows.step) {
    for (std::int64_t x = columns.begin; x < columns.end; x += columns.step) {
      const std::int64_t at = y * width + x;
      best = best < 0 || beats(plane[at], plane[best]) ? at : best;
    }
  }
  return best;
}

/// Calls `fn(output, index of the winner or -1)` for each output of a plane.
template <class T, class Fn>
void for_each_window(const PoolShape& shape, const T* plane, const Fn& fn) {
  std::int64_t output = 0;
  for (std::int64_t y = 0; y < shape.rows.output; ++y) {
    const Span rows = span_of(shape.rows, shape.adaptive, y);
    for (std::int64_t x = 0; x < shape.columns.output; ++x) {
      fn(output++, winner(plane, shape.columns.input, rows, span_of(shape.columns, shape.adaptive, x)));
    }
  }
}

bool has_runs(const PoolShape& shape) {
  return !shape.adaptive && PhasedPlane(shape.rows, shape.columns).is_reasonable();
}

template <class T>
struct LargestOfRuns {
  DIPTYCH_INLINE static void run(std::int64_t n, std::int64_t taps, const T* const* runs, T* out) {
    const T lowest = -std::numeric_limits<T>::infinity();
    std::int64_t done = 0;
    for (; taps - done >= 9; done += 9) {
      pass<9>(n, runs + done, done == 0, lowest, out);
    }
    for (; taps - done >= 2; done += 2) {
      pass<2>(n, runs + done, done == 0, lowest, out);
    }
    for (; done < taps; ++done) {
      pass<1>(n, runs + done, done == 0, lowest, out);
    }
  }

 private:
  template <int taps>
  DIPTYCH_INLINE static void pass(std::int64_t n, const T* const* runs, bool first, T lowest, T* out) {
    const T* in[taps];
    for (int t = 0; t < taps; ++t) {
      in[t] = runs[t];
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      T best = first ? lowest : out[i];
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t) {
        best = math::maximum(best, in[t][i]);
      }
      out[i] = best;
    }
  }
};

template <class T>
using TapIndex = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// The index of the winning tap, -1 if all are -inf.
template <class T>
struct WinnerOfRuns {
  using Index = TapIndex<T>;
  DIPTYCH_INLINE static void run(std::int64_t n, std::int64_t taps, const T* const* runs, T* best, Index* winners) {
    std::int64_t done = 0;
    for (; taps - done >= 9; done += 9) {
      done == 0 ? pass<9, true>(n, runs, 0, best, winners) : pass<9, false>(n, runs + done, done, best, winners);
    }
    for (; taps - done >= 2; done += 2) {
      done == 0 ? pass<2, true>(n, runs, 0, best, winners) : pass<2, false>(n, runs + done, done, best, winners);
    }
    for (; done < taps; ++done) {
      done == 0 ? pass<1, true>(n, runs, 0, best, winners) : pass<1, false>(n, runs + done, done, best, winners);
    }
  }

 private:
  template <int taps, bool first>
  DIPTYCH_INLINE static void pass(std::int64_t n, const T* const* runs, std::int64_t first_tap, T* best,
                                  Index* winners) {
    const T* in[taps];
    for (int t = 0; t < taps; ++t) {
      in[t] = runs[t];
    }
    const auto base = static_cast<Index>(first_tap);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      T champion = -std::numeric_limits<T>::infinity();
      Index number = -1;
      if constexpr (!first) {
        champion = best[i];
        number = winners[i];
      }
#pragma GCC unroll 16
      for (int t = 0; t < taps; ++t) {
        const T challenger = in[t][i];
        // Larger or NaN, and the champion isn't NaN. A mask, because otherwise the compiler makes branches of it.
        const Index wins = -static_cast<Index>(!(challenger <= champion)) & -static_cast<Index>(champion == champion);
        champion =
            std::bit_cast<T>((std::bit_cast<Index>(challenger) & wins) | (std::bit_cast<Index>(champion) & ~wins));
        number = (static_cast<Index>(base + t) & wins) | (number & ~wins);
      }
      best[i] = champion;
      winners[i] = number;
    }
  }
};

std::int64_t whole_vectors(std::int64_t n) { return (n + 15) / 16 * 16; }

/// The runs of all taps, in row-major order.
template <class T>
std::vector<const T*> runs_of(const PhasedPlane& layout, const T* phases) {
  std::vector<const T*> runs;
  for (std::int64_t k = 0; k < layout.rows.kernel; ++k) {
    for (std::int64_t l = 0; l < layout.columns.kernel; ++l) {
      runs.push_back(phases + layout.offset(k, l));
    }
  }
  return runs;
}

template <class T>
void largest(const PoolShape& shape, const T* x, T* y) {
  const T lowest = -std::numeric_limits<T>::infinity();
  if (!has_runs(shape)) {
    for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane(), y += shape.output_plane()) {
      for_each_window(shape, x, [&](std::int64_t output, std::int64_t at) { y[output] = at < 0 ? lowest : x[at]; });
    }
    return;
  }
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(layout.size(), lowest);
  const Buffer<T> run(layout.run() + PhasedPlane::kSlack);
  const std::vector<const T*> runs = runs_of<T>(layout, phases.data());
  const auto fill = PerIsa<FillPhases<T>>::active();
  const auto reduce = PerIsa<LargestOfRuns<T>>::active();
  for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane(), y += shape.output_plane()) {
    fill(&layout, x, phases.data());
    reduce(whole_vectors(layout.run()), static_cast<std::int64_t>(runs.size()), runs.data(), run.data());
    copy_rows(shape.rows.output, shape.columns.output, run.data(), layout.pitch, y, shape.columns.output);
  }
}

/// Calls `fn(plane, output, index of the winner)` for each window that has one.
template <class T, class Fn>
void for_each_winner(const PoolShape& shape, const T* x, const Fn& fn) {
  if (!has_runs(shape)) {
    for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane()) {
      for_each_window(shape, x, [&](std::int64_t output, std::int64_t at) {
        if (at >= 0) {
          fn(plane, output, at);
        }
      });
    }
    return;
  }
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(layout.size(), -std::numeric_limits<T>::infinity());
  const Buffer<T> best(layout.run() + PhasedPlane::kSlack);
  const Buffer<TapIndex<T>> winners(layout.run() + PhasedPlane::kSlack);
  const std::vector<const T*> runs = runs_of<T>(layout, phases.data());
  std::vector<std::int64_t> distance;  // from the window's corner to each tap, in the plane
  for (std::int64_t k = 0; k < shape.rows.kernel; ++k) {
    for (std::int64_t l = 0; l < shape.columns.kernel; ++l) {
      distance.push_back(k * shape.rows.dilation * shape.columns.input + l * shape.columns.dilation);
    }
  }
  const auto fill = PerIsa<FillPhases<T>>::active();
  const auto reduce = PerIsa<WinnerOfRuns<T>>::active();
  for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane()) {
    fill(&layout, x, phases.data());
    reduce(whole_vectors(layout.run()), static_cast<std::int64_t>(runs.size()), runs.data(), best.data(),
           winners.data());
    std::int64_t output = 0;
    for (std::int64_t row = 0; row < shape.rows.output; ++row) {
      std::int64_t corner = (row * shape.rows.stride - shape.rows.before) * shape.columns.input - shape.columns.before;
      const TapIndex<T>* winner_of = winners.data() + row * layout.pitch;
      for (std::int64_t column = 0; column < shape.columns.output; ++column, ++output, corner += shape.columns.stride) {
        const TapIndex<T> tap = winner_of[column];
        const std::int64_t at = tap >= 0 ? corner + distance[static_cast<std::size_t>(tap)]
                                         : winner(x, shape.columns.input, span_of(shape.rows, false, row),
                                                  span_of(shape.columns, false, column));
        if (at >= 0) {
          fn(plane, output, at);
        }
      }
    }
  }
}

template <class T>
void mean(const PoolShape& shape, const T* x, T* y) {
  std::vector<std::int64_t> widths;
  for (std::int64_t column = 0; column < shape.columns.output; ++column) {
    widths.push_back(count_of(shape, shape.columns, shape.after_columns, column));
  }
  const auto count = [&](std::int64_t height, std::int64_t column) {
    return static_cast<T>(height * widths[static_cast<std::size_t>(column)]);
  };
  if (!has_runs(shape)) {
    for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane()) {
      for (std::int64_t row = 0; row < shape.rows.output; ++row) {
        const Span rows = span_of(shape.rows, shape.adaptive, row);
        const std::int64_t height = count_of(shape, shape.rows, shape.after_rows, row);
        for (std::int64_t column = 0; column < shape.columns.output; ++column) {
          const Span columns = span_of(shape.columns, shape.adaptive, column);
          T total = T(0);
          for (std::int64_t i = rows.begin; i < rows.end; i += rows.step) {
            for (std::int64_t j = columns.begin; j < columns.end; j += columns.step) {
              total += x[i * shape.columns.input + j];
            }
          }
          *y++ = total / count(height, column);
        }
      }
    }
    return;
  }
  const PhasedPlane layout(shape.rows, shape.columns);
  const Buffer<T> phases(layout.size());
  const Buffer<T> run(layout.run() + PhasedPlane::kSlack);
  const std::vector<const T*> runs = runs_of<T>(layout, phases.data());
  const std::vector<T> ones(runs.size(), T(1));
  const auto fill = PerIsa<FillPhases<T>>::active();
  for (std::int64_t plane = 0; plane < shape.planes; ++plane, x += shape.input_plane()) {
    fill(&layout, x, phases.data());
    combine_runs(layout.run(), runs, ones.data(), T(0), run.data());
    for (std::int64_t row = 0; row < shape.rows.output; ++row) {
      const std::int64_t height = count_of(shape, shape.rows, shape.after_rows, row);
      const T* totals = run.data() + row * layout.pitch;
      for (std::int64_t column = 0; column < shape.columns.output; ++column) {
        *y++ = totals[column] / count(height, column);
      }
    }
  }
}

template <class T>
void spread_mean(const PoolShape& shape, const T* dy, T* dx) {
  std::vector<std::int64_t> widths;
  for (std::int64_t column = 0; column < shape.columns.output; ++column) {
    widths.push_back(count_of(shape, shape.columns, shape.after_columns, column));
  }
  std::fill_n(dx, shape.planes * shape.input_plane(), T(0));
  for (std::int64_t plane = 0; plane < shape.planes; ++plane, dx += shape.input_plane()) {
    for (std::int64_t row = 0; row < shape.rows.output; ++row) {
      const Span rows = span_of(shape.rows, shape.adaptive, row);
      const std::int64_t height = count_of(shape, shape.rows, shape.after_rows, row);
      for (std::int64_t column = 0; column < shape.columns.output; ++column) {
        const Span columns = span_of(shape.columns, shape.adaptive, column);
        const T share = *dy++ / static_cast<T>(height * widths[static_cast<std::size_t>(column)]);
        for (std::int64_t i = rows.begin; i < rows.end; i += rows.step) {
          for (std::int64_t j = columns.begin; j < columns.end; j += columns.step) {
            dx[i * shape.columns.input + j] += share;
          }
        }
      }
    }
  }
}

/// Calls fn.operator()<T>(part of the shape, its first plane); does nothing for empty results, whose shapes may be
/// anything.
template <class Fn>
void with_type(const PoolShape& shape, DType dtype, const Fn& fn) {
  if (shape.planes == 0) {
    return;
  }
  constexpr double kNanosecondsOfElement = 0.5;
  const double of_plane = kNanosecondsOfElement * static_cast<double>(shape.input_plane() + shape.output_plane());
  parallel_for(shape.planes, of_plane, [&](std::int64_t first, std::int64_t last) {
    PoolShape part = shape;
    part.planes = last - first;
    visit_wide_float(dtype, [&]<class T>() { fn.template operator()<T>(part, first); });
  });
}

}  // namespace

void max_pool(const PoolShape& whole, DType dtype, const void* x, void* y) {
  with_type(whole, dtype, [&]<class T>(const PoolShape& shape, std::int64_t plane) {
    largest(shape, static_cast<const T*>(x) + plane * shape.input_plane(),
            static_cast<T*>(y) + plane * shape.output_plane());
  });
}

void max_pool_gather(const PoolShape& whole, DType dtype, const void* x, const void* source, void* y) {
  with_type(whole, dtype, [&]<class T>(const PoolShape& shape, std::int64_t first) {
    const T* in = static_cast<const T*>(source) + first * shape.input_plane();
    T* out = static_cast<T*>(y) + first * shape.output_plane();
    std::fill_n(out, shape.planes * shape.output_plane(), T(0));
    for_each_winner(shape, static_cast<const T*>(x) + first * shape.input_plane(),
                    [&](std::int64_t plane, std::int64_t output, std::int64_t at) {
                      out[plane * shape.output_plane() + output] = in[plane * shape.input_plane() + at];
                    });
  });
}

void max_pool_scatter(const PoolShape& whole, DType dtype, const void* x, const void* dy, void* dx) {
  with_type(whole, dtype, [&]<class T>(const PoolShape& shape, std::int64_t first) {
    const T* in = static_cast<const T*>(dy) + first * shape.output_plane();
    T* out = static_cast<T*>(dx) + first * shape.input_plane();
    std::fill_n(out, shape.planes * shape.input_plane(), T(0));
    for_each_winner(shape, static_cast<const T*>(x) + first * shape.input_plane(),
                    [&](std::int64_t plane, std::int64_t output, std::int64_t at) {
                      out[plane * shape.input_plane() + at] += in[plane * shape.output_plane() + output];
                    });
  });
}

void mean_pool(const PoolShape& whole, DType dtype, const void* x, void* y) {
  with_type(whole, dtype, [&]<class T>(const PoolShape& shape, std::int64_t plane) {
    mean(shape, static_cast<const T*>(x) + plane * shape.input_plane(),
         static_cast<T*>(y) + plane * shape.output_plane());
  });
}

void mean_pool_scatter(const PoolShape& whole, DType dtype, const void* dy, void* dx) {
  with_type(whole, dtype, [&]<class T>(const PoolShape& shape, std::int64_t plane) {
    spread_mean(shape, static_cast<const T*>(dy) + plane * shape.output_plane(),
                static_cast<T*>(dx) + plane * shape.input_plane());
  });
}

}  // namespace diptych::kernels
