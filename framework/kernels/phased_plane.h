#pragma once

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "framework/core/isa.h"
#include "framework/kernels/window.h"

namespace diptych::kernels {

/// A padded plane sorted by the phases of both strides. The values that tap (k, l) reads for *all* windows are then one
/// dense run, with that of output (row, column) at row * pitch + column from offset(k, l). So the same vector loop
/// serves every stride and dilation, and rows shorter than a vector don't matter. The columns between the outputs'
/// width and the pitch are computed and dropped.
struct PhasedPlane {
  /// A loop over a run may overshoot it by less than this many elements.
  static constexpr std::int64_t kSlack = 64;

  WindowAxis rows;
  WindowAxis columns;
  std::int64_t row_phases;
  std::int64_t column_phases;
  std::int64_t phase_rows;
  std::int64_t pitch;

  PhasedPlane(const WindowAxis& row_axis, const WindowAxis& column_axis)
      : rows(row_axis),
        columns(column_axis),
        row_phases(std::min(rows.stride, rows.span())),
        column_phases(std::min(columns.stride, columns.span())),
        phase_rows((rows.span() - 1) / rows.stride + 1),
        pitch((columns.span() - 1) / columns.stride + 1) {}

  std::int64_t phase_size() const { return phase_rows * pitch; }
  std::int64_t size() const { return row_phases * column_phases * phase_size() + pitch + kSlack; }
  /// Number of elements of a run.
  std::int64_t run() const { return rows.output * pitch; }
  std::int64_t phase_of(std::int64_t k, std::int64_t l) const {
    return (k * rows.dilation % rows.stride) * column_phases + l * columns.dilation % columns.stride;
  }
  std::int64_t offset_in_phase(std::int64_t k, std::int64_t l) const {
    return k * rows.dilation / rows.stride * pitch + l * columns.dilation / columns.stride;
  }
  std::int64_t offset(std::int64_t k, std::int64_t l) const {
    return phase_of(k, l) * phase_size() + offset_in_phase(k, l);
  }

  /// Whether padding and strides keep its size in proportion to the input and output planes; attributes may be hostile.
  bool is_reasonable() const {
    const double wanted = static_cast<double>(rows.span()) * static_cast<double>(columns.span());
    const double given = static_cast<double>(rows.input) * static_cast<double>(columns.input) +
                         static_cast<double>(rows.output) * static_cast<double>(columns.output);
    return rows.output > 0 && columns.output > 0 && wanted <= 4 * given + 4096;
  }

  /// The cells [first, last) in the rows of a column phase that aren't padding.
  struct Cells {
    std::int64_t first;
    std::int64_t last;
  };
  DIPTYCH_INLINE Cells inside(std::int64_t phase_x) const {
    const auto ceiling = [](std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
    return {ceiling(columns.before - phase_x, columns.stride),
            std::min(pitch, ceiling(columns.input + columns.before - phase_x, columns.stride))};
  }
  /// The plane's column for a cell.
  std::int64_t column_of(std::int64_t phase_x, std::int64_t cell) const {
    return cell * columns.stride + phase_x - columns.before;
  }

  /// Calls `fn(index of the row's first cell in column phase 0, index of its first element in the plane)` for each row
  /// that isn't padding.
  template <class Fn>
  DIPTYCH_INLINE void for_each_row(const Fn& fn) const {
    for (std::int64_t phase_y = 0; phase_y < row_phases; ++phase_y) {
      for (std::int64_t row = 0; row < phase_rows; ++row) {
        const std::int64_t y = row * rows.stride + phase_y - rows.before;
        if (y >= 0 && y < rows.input) {
          fn(phase_y * column_phases * phase_size() + row * pitch, y * columns.input);
        }
      }
    }
  }
};

/// Calls move(begin, length) for pieces of 0..n whose lengths are compile-time powers of two, with the last one
/// overlapping the one before: processing the remainder of a vector loop element by element would cost more than all of
/// a short row.
template <int length = 8, class Move>
DIPTYCH_INLINE void in_pieces(std::int64_t n, const Move& move) {
  if (n >= length) {
    for (std::int64_t i = 0; i + length <= n; i += length) {
      move(i, std::integral_constant<int, length>());
    }
    if (n % length != 0) {
      move(n - length, std::integral_constant<int, length>());
    }
  } else if constexpr (length > 1) {
    in_pieces<length / 2>(n, move);
  }
}

/// out[i] = in[i * stride]
template <class T>
DIPTYCH_INLINE void gather_run(std::int64_t n, const T* in, std::int64_t stride, T* out) {
  constexpr std::int64_t kShort = 32;
  if (stride == 1) {
    if (n < kShort) {
      in_pieces<32 / sizeof(T)>(
          n, [=](std::int64_t begin, auto length) __attribute__((always_inline)) {
            std::array<T, length()> piece;
            std::memcpy(&piece, in + begin, sizeof(piece));
            std::memcpy(out + begin, &piece, sizeof(piece));
          });
    } else {
      std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
    }
  } else if (stride == 2) {
    const auto copy = [=](std::int64_t begin, auto length) __attribute__((always_inline)) {
      for (std::int64_t i = begin; i < begin + length; ++i) {
        out[i] = in[2 * i];
      }
    };
    n < kShort ? in_pieces(n, copy) : copy(0, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = in[i * stride];
    }
  }
}

/// Separates neighbours: first[i] = in[2 * i], second[i] = in[2 * i + 1]. One load serves both, which matters for short
/// rows.
template <class T>
DIPTYCH_INLINE void split_pairs(std::int64_t n, const T* in, T* first, T* second) {
  in_pieces<32 / sizeof(T)>(
      n, [=](std::int64_t begin, auto length) __attribute__((always_inline)) {
        constexpr std::size_t kLength = length();
        [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
          using Vector [[gnu::vector_size(sizeof(T) * kLength)]] = T;
          Vector low;
          Vector high;
          std::memcpy(&low, in + 2 * begin, sizeof(Vector));
          std::memcpy(&high, in + 2 * begin + kLength, sizeof(Vector));
          const Vector even = __builtin_shufflevector(low, high, 2 * i...);
          const Vector odd = __builtin_shufflevector(low, high, 2 * i + 1 ...);
          std::memcpy(first + begin, &even, sizeof(Vector));
          std::memcpy(second + begin, &odd, sizeof(Vector));
        }
        (std::make_integer_sequence<int, kLength>());
      });
}

/// The inverse.
template <class T>
DIPTYCH_INLINE void join_pairs(std::int64_t n, const T* first, const T* second, T* out) {
  in_pieces<32 / sizeof(T)>(
      n, [=](std::int64_t begin, auto length) __attribute__((always_inline)) {
        constexpr std::size_t kLength = length();
        [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
          using Vector [[gnu::vector_size(sizeof(T) * kLength)]] = T;
          constexpr int kCount = kLength;
          Vector even;
          Vector odd;
          std::memcpy(&even, first + begin, sizeof(Vector));
          std::memcpy(&odd, second + begin, sizeof(Vector));
          // Element e of the output is element e / 2 of `even` or `odd`.
          const Vector low = __builtin_shufflevector(even, odd, i / 2 + i % 2 * kCount...);
          const Vector high = __builtin_shufflevector(even, odd, (i + kCount) / 2 + (i + kCount) % 2 * kCount...);
          std::memcpy(out + 2 * begin, &low, sizeof(Vector));
          std::memcpy(out + 2 * begin + kLength, &high, sizeof(Vector));
        }
        (std::make_integer_sequence<int, kLength>());
      });
}

/// Calls `alone(first cell, index in the plane, n)` for each run of cells that aren't padding; neighbours in a run are
/// columns.stride apart in the plane. Where two column phases alternate, it handles both at once: `pairs(first cell of
/// the left phase, of the right phase, index in the plane, n)`.
template <class Alone, class Pairs>
DIPTYCH_INLINE void for_each_run(const PhasedPlane& layout, const Alone& alone, const Pairs& pairs) {
  struct Run {
    std::int64_t cell;
    std::int64_t column;
    std::int64_t n;
  };
  const auto run_of = [&](std::int64_t phase_x) {
    const PhasedPlane::Cells cells = layout.inside(phase_x);
    return Run{phase_x * layout.phase_size() + cells.first, layout.column_of(phase_x, cells.first),
               std::max<std::int64_t>(0, cells.last - cells.first)};
  };
  const auto rest = [&](const Run& run, std::int64_t done, std::int64_t cell, std::int64_t from)
      __attribute__((always_inline)) {
    if (run.n > done) {
      alone(cell + run.cell + done, from + run.column + done * layout.columns.stride, run.n - done);
    }
  };
  if (layout.columns.stride == 2 && layout.column_phases == 2) {
    Run left = run_of(0);
    Run right = run_of(1);
    if (left.column > right.column) {
      std::swap(left, right);
    }
    const std::int64_t both = std::min(left.n, right.n);
    layout.for_each_row([&](std::int64_t cell, std::int64_t from) __attribute__((always_inline)) {
      pairs(cell + left.cell, cell + right.cell, from + left.column, both);
      rest(left, both, cell, from);
      rest(right, both, cell, from);
    });
    return;
  }
  for (std::int64_t phase_x = 0; phase_x < layout.column_phases; ++phase_x) {
    const Run run = run_of(phase_x);
    layout.for_each_row([&](std::int64_t cell, std::int64_t from)
                            __attribute__((always_inline)) { rest(run, 0, cell, from); });
  }
}

/// Fills the cells inside the plane; the padding must be set already.
template <class T>
DIPTYCH_INLINE void fill_phases(const PhasedPlane& layout, const T* plane, T* phases) {
  for_each_run(
      layout,
      [&](std::int64_t to, std::int64_t from, std::int64_t n)
          __attribute__((always_inline)) { gather_run(n, plane + from, layout.columns.stride, phases + to); },
      [&](std::int64_t left, std::int64_t right, std::int64_t from, std::int64_t n)
          __attribute__((always_inline)) { split_pairs(n, plane + from, phases + left, phases + right); });
}

/// The inverse; inputs that no window reads are left unchanged.
template <class T>
DIPTYCH_INLINE void drain_phases(const PhasedPlane& layout, const T* phases, T* plane) {
  const std::int64_t stride = layout.columns.stride;
  for_each_run(
      layout,
      [&](std::int64_t from, std::int64_t to, std::int64_t n) __attribute__((always_inline)) {
        const T* in = phases + from;
        T* out = plane + to;
        if (stride == 1) {
          gather_run(n, in, 1, out);
        } else {
          for (std::int64_t i = 0; i < n; ++i) {
            out[i * stride] = in[i];
          }
        }
      },
      [&](std::int64_t left, std::int64_t right, std::int64_t to, std::int64_t n)
          __attribute__((always_inline)) { join_pairs(n, phases + left, phases + right, plane + to); });
}

}  // namespace diptych::kernels
