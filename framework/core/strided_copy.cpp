#include "framework/core/strided_copy.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "framework/core/isa.h"
#include "framework/core/parallel.h"
#include "framework/core/transpose.h"

namespace diptych::kernels {
namespace {

struct Axis {
  std::int64_t length = 1;
  std::int64_t from = 0;  ///< strides in elements
  std::int64_t to = 0;
};

/// The loops of one copy: `outer` axes around a plane of `rows` x `inner`.
struct Nest {
  int outer_rank = 0;
  Axis outer[kMaxRank];
  Axis rows;
  Axis inner;
};

/// How the plane is copied.
enum class Plane : std::uint8_t { runs, fills, tiles, elements };

/// Longer runs go to memcpy: from this length on the call pays off.
constexpr std::int64_t kLongRunBytes = 1024;
/// As many floats as a cache line holds.
constexpr std::int64_t kTile = 16;

template <class T>
DIPTYCH_INLINE void copy_run(std::int64_t n, const T* from, T* to) {
  if (n * static_cast<std::int64_t>(sizeof(T)) >= kLongRunBytes) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = from[i];
  }
}

/// A transposition: the source is dense along `rows`, the destination along `inner`. It uses tiles that fit the L1
/// cache, so that each line is fetched once.
template <class T>
DIPTYCH_INLINE void copy_tiles(const Axis& rows, const Axis& inner, const T* from, T* to) {
  for (std::int64_t row = 0; row < rows.length; row += kTile) {
    const std::int64_t height = rows.length - row < kTile ? rows.length - row : kTile;
    for (std::int64_t column = 0; column < inner.length; column += kTile) {
      const std::int64_t width = inner.length - column < kTile ? inner.length - column : kTile;
      const T* source = from + row + column * inner.from;
      T* target = to + row * rows.to + column;
      if (height == kTile && width == kTile) {
        T tile[kTile][kTile];
        for (std::int64_t c = 0; c < kTile; ++c) {
          for (std::int64_t r = 0; r < kTile; ++r) {
            tile[c][r] = source[c * inner.from + r];
          }
        }
        for (std::int64_t r = 0; r < kTile; ++r) {
          for (std::int64_t c = 0; c < kTile; ++c) {
            target[r * rows.to + c] = tile[c][r];
          }
        }
      } else {
        for (std::int64_t r = 0; r < height; ++r) {
          for (std::int64_t c = 0; c < width; ++c) {
            target[r * rows.to + c] = source[c * inner.from + r];
          }
        }
      }
    }
  }
}

template <class T>
struct CopyNest {
  DIPTYCH_INLINE static void plane(Plane kind, const Axis& rows, const Axis& inner, const T* from, T* to) {
    if (kind == Plane::tiles) {
      if constexpr (sizeof(T) >= sizeof(float)) {
        transpose_elements(sizeof(T), inner.length, rows.length, from, inner.from, to, rows.to);
      } else {
        copy_tiles(rows, inner, from, to);
      }
      return;
    }
    for (std::int64_t row = 0; row < rows.length; ++row, from += rows.from, to += rows.to) {
      if (kind == Plane::runs) {
        copy_run(inner.length, from, to);
      } else if (kind == Plane::fills) {
        const T value = *from;
        for (std::int64_t i = 0; i < inner.length; ++i) {
          to[i] = value;
        }
      } else {
        for (std::int64_t i = 0; i < inner.length; ++i) {
          to[i * inner.to] = from[i * inner.from];
        }
      }
    }
  }

  DIPTYCH_INLINE static void run(const Nest* nest, Plane kind, const void* source, void* target) {
    const auto* from = static_cast<const T*>(source);
    auto* to = static_cast<T*>(target);
    std::int64_t index[kMaxRank] = {};
    for (;;) {
      plane(kind, nest->rows, nest->inner, from, to);
      int axis = nest->outer_rank - 1;
      for (;; --axis) {
        if (axis < 0) {
          return;
        }
        const Axis& loop = nest->outer[axis];
        const bool wraps = ++index[axis] == loop.length;
        const std::int64_t steps = wraps ? 1 - loop.length : 1;
        from += loop.from * steps;
        to += loop.to * steps;
        if (!wraps) {
          break;
        }
        index[axis] = 0;
      }
    }
  }
};

/// The axes longer than 1, with neighbours merged where both sides traverse them as one. False if there are no
/// elements.
bool merged_axes(const Shape& shape, const Strides& from, const Strides& to, Axis (&axes)[kMaxRank], int& count) {
  count = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) {
      return false;
    }
    if (shape[i] == 1) {
      continue;
    }
    const Axis axis{shape[i], from[i], to[i]};
    Axis* previous = count > 0 ? &axes[count - 1] : nullptr;
    if (previous != nullptr && previous->from == axis.from * axis.length && previous->to == axis.to * axis.length) {
      *previous = {previous->length * axis.length, axis.from, axis.to};
    } else {
      axes[count++] = axis;
    }
  }
  return true;
}

/// Removes one axis from the list.
Axis take(Axis (&axes)[kMaxRank], int& count, int index) {
  const Axis taken = axes[index];
  --count;
  for (int i = index; i < count; ++i) {
    axes[i] = axes[i + 1];
  }
  return taken;
}

/// The last axis with a unit stride on one side, or -1.
int unit_axis(const Axis* axes, int count, std::int64_t Axis::*stride) {
  int index = count - 1;
  while (index >= 0 && axes[index].*stride != 1) {
    --index;
  }
  return index;
}

}  // namespace

void strided_copy(const Shape& shape, std::size_t size, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides) {
  Nest nest;
  int count = 0;
  if (!merged_axes(shape, from_strides, to_strides, nest.outer, count)) {
    return;
  }
  Plane kind = Plane::runs;
  nest.inner = {1, 1, 1};
  if (count > 0) {
    const int dense = unit_axis(nest.outer, count, &Axis::to);
    nest.inner = take(nest.outer, count, dense >= 0 ? dense : count - 1);
    const bool writes_runs = nest.inner.to == 1;
    const int source = unit_axis(nest.outer, count, &Axis::from);
    kind = !writes_runs           ? Plane::elements
           : nest.inner.from == 1 ? Plane::runs
           : nest.inner.from == 0 ? Plane::fills
           : source >= 0          ? Plane::tiles
                                  : Plane::elements;
    if (kind == Plane::tiles) {
      nest.rows = take(nest.outer, count, source);
    } else if (count > 0) {
      nest.rows = take(nest.outer, count, count - 1);
    }
  }
  nest.outer_rank = count;
  // The axis that is divided.
  const bool has_outer = count > 0;
  const Axis whole = has_outer ? nest.outer[0] : nest.rows;
  constexpr double kNanosecondsOfElement = 0.4;
  const double of_item =
      kNanosecondsOfElement * static_cast<double>(shape.product()) / static_cast<double>(whole.length);
  parallel_for(whole.length, of_item, [&](std::int64_t first, std::int64_t last) {
    Nest part = nest;
    (has_outer ? part.outer[0] : part.rows).length = last - first;
    const auto step = static_cast<std::int64_t>(size);
    const std::byte* const source = static_cast<const std::byte*>(from) + first * whole.from * step;
    std::byte* const target = static_cast<std::byte*>(to) + first * whole.to * step;
    switch (size) {
      case 1:
        return PerIsa<CopyNest<std::uint8_t>>::active()(&part, kind, source, target);
      case 2:
        return PerIsa<CopyNest<std::uint16_t>>::active()(&part, kind, source, target);
      case 4:
        return PerIsa<CopyNest<std::uint32_t>>::active()(&part, kind, source, target);
      default:
        return PerIsa<CopyNest<std::uint64_t>>::active()(&part, kind, source, target);
    }
  });
}

}  // namespace diptych::kernels
