#pragma once

#include <type_traits>

#include "framework/kernels/isa.h"
#include "framework/kernels/window.h"

namespace diptych::kernels {

/// A padded plane sorted by the phases of both strides: what tap (k, l) of *all* windows reads is then one dense run,
/// with output (row, column) at row * pitch + column from offset(k, l). So every stride and dilation has the same
/// vector loop, and rows shorter than a vector don't matter. The columns between the outputs' width and the pitch are
/// computed and dropped.
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
  /// Elements of a run.
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

  /// Whether padding and strides leave it in proportion to the planes that it stands between; attributes may be
  /// hostile.
  bool is_reasonable() const {
    const double wanted = static_cast<double>(rows.span()) * static_cast<double>(columns.span());
    const double given = static_cast<double>(rows.input) * static_cast<double>(columns.input) +
                         static_cast<double>(rows.output) * static_cast<double>(columns.output);
    return rows.output > 0 && columns.output > 0 && wanted <= 4 * given + 4096;
  }

  /// Calls `fn(index of the first cell here, its index in the plane, cells)` for each run of a phase's row that is no
  /// padding; neighbours here are columns.stride apart in the plane.
  template <class Fn>
  DIPTYCH_INLINE void for_each_row(const Fn& fn) const {
    const auto ceiling = [](std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
    for (std::int64_t phase_y = 0; phase_y < row_phases; ++phase_y) {
      for (std::int64_t phase_x = 0; phase_x < column_phases; ++phase_x) {
        const std::int64_t first = ceiling(columns.before - phase_x, columns.stride);
        const std::int64_t last = std::min(pitch, ceiling(columns.input + columns.before - phase_x, columns.stride));
        for (std::int64_t row = 0; row < phase_rows; ++row) {
          const std::int64_t y = row * rows.stride + phase_y - rows.before;
          if (y >= 0 && y < rows.input && first < last) {
            fn((phase_y * column_phases + phase_x) * phase_size() + row * pitch + first,
               y * columns.input + first * columns.stride + phase_x - columns.before, last - first);
          }
        }
      }
    }
  }
};

/// Calls move(begin, length) for pieces of 0..n whose lengths are compile-time powers of two, the last one overlapping
/// the one before: what is left over of a vector loop, element by element, would cost more than all of a short row.
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
    const auto copy = [=](std::int64_t begin, auto length) __attribute__((always_inline)) {
      for (std::int64_t i = begin; i < begin + length; ++i) {
        out[i] = in[i];
      }
    };
    n < kShort ? in_pieces(n, copy) : copy(0, n);
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

/// Fills the cells that are inside the plane; the padding must stand already.
template <class T>
DIPTYCH_INLINE void fill_phases(const PhasedPlane& layout, const T* plane, T* phases) {
  layout.for_each_row([&](std::int64_t to, std::int64_t from, std::int64_t n) __attribute__((always_inline)) {
    gather_run(n, plane + from, layout.columns.stride, phases + to);
  });
}

/// The way back; inputs that no window reads keep what they have.
template <class T>
DIPTYCH_INLINE void drain_phases(const PhasedPlane& layout, const T* phases, T* plane) {
  const std::int64_t stride = layout.columns.stride;
  layout.for_each_row([&](std::int64_t from, std::int64_t to, std::int64_t n) __attribute__((always_inline)) {
    const T* in = phases + from;
    T* out = plane + to;
    if (stride == 1) {
      gather_run(n, in, 1, out);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        out[i * stride] = in[i];
      }
    }
  });
}

}  // namespace diptych::kernels
