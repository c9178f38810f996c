#pragma once

#include <algorithm>

#include "framework/kernels/fused_add.h"
#include "framework/kernels/product.h"
#include "framework/kernels/vector_length.h"

/// The tiles of product(), for the units that instantiate it: one for each kind of operands, since together they would
/// take the compiler as long as all other kernels of a build.
namespace diptych::kernels {
namespace tiles {

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic ignored "-Wpsabi"

/// A part of all chains of a product: `begin` to `end` of its depth.
struct Chains {
  std::int64_t begin, end;
};

/// What a tile fetches for one that comes later: an element for each step of its chains.
template <class T>
struct Fetch {
  const T* from;
  std::int64_t step;
  DIPTYCH_INLINE void next() {
    constexpr int kToSecondCache = 2;
    __builtin_prefetch(from, 0, kToSecondCache);
    from += step;
  }
};
/// Even a fetch of what is there takes two percent of a tile's time.
struct NoFetch {
  DIPTYCH_INLINE void next() {}
};

/// A tile of `height` rows by `width` vectors of `lanes`, held in registers. Where a chain is interrupted, its sums
/// wait in `partial`; null: no chain is.
template <class T, int lanes, int height, int width, class Operands, class Fetching = NoFetch>
DIPTYCH_INLINE void product_tile(const ProductCall<T, Operands>& call, const Chains& part, std::int64_t row,
                                 std::int64_t column, T* partial, Fetching fetch = {}) {
  using Vector = typename Vectors<T, lanes>::Vector;
  using Loose = typename Vectors<T, lanes>::Loose;
  const T* a[height];
  Vector sums[height][width];
  const auto waiting = [&](int i, int j) __attribute__((always_inline))->Loose& {
    return *reinterpret_cast<Loose*>(partial + (i * width + j) * lanes);
  };
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    a[i] = call.operands.left_row(row + i);
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      sums[i][j] = partial == nullptr || part.begin == 0 ? Vector{} : waiting(i, j);
    }
  }
  const bool ends = partial == nullptr || part.end == call.depth;
  if (ends && call.result_is_far) {
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      constexpr int kToWrite = 1;
      constexpr int kLine = 64 / sizeof(T);
      T* const c = call.c + (row + i) * call.c_pitch + column;
#pragma GCC unroll 16
      for (int at = 0; at < width * lanes; at += kLine) {
        __builtin_prefetch(c + at, kToWrite);
      }
      __builtin_prefetch(c + width * lanes - 1, kToWrite);
    }
  }
  typename Operands::Walk walk(call.operands, part.begin);
  for (std::int64_t k = part.begin; k < part.end; ++k, walk.step(), fetch.next()) {
    const T* const b = walk.right() + column;
    const std::int64_t at = walk.left();
    Vector right[width];
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      right[j] = *reinterpret_cast<const Loose*>(b + j * lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      const Vector left = a[i][at] - Vector{};
#pragma GCC unroll 16
      for (int j = 0; j < width; ++j) {
        add_product<T, lanes>(left, right[j], sums[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    T* c = call.c + (row + i) * call.c_pitch + column;
    const T* start = call.start + (row + i) * call.start_pitch + column;
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      if (!ends) {
        waiting(i, j) = sums[i][j];
        continue;
      }
      Loose& out = *reinterpret_cast<Loose*>(c + j * lanes);
      out = call.start != nullptr ? *reinterpret_cast<const Loose*>(start + j * lanes) + sums[i][j] : sums[i][j];
    }
  }
}

/// The last rows of the columns of one tile, fewer than 2 * height.
template <class T, int lanes, int height, int width, class Operands>
DIPTYCH_INLINE void last_rows(const ProductCall<T, Operands>& call, std::int64_t row, std::int64_t column) {
  for (; row + height <= call.row_count; row += height) {
    product_tile<T, lanes, height, width>(call, {0, call.depth}, row, column, static_cast<T*>(nullptr));
  }
  if constexpr (height > 1) {
    // Three rows are one tile: of two and one, both would wait for their sums.
    last_rows<T, lanes, (height > 4 ? height / 2 : height - 1), width>(call, row, column);
  }
}

/// What the tiles of a part fetch: the same part of the matrix that will be copied, or, of one that is read where
/// it lies, the part that comes next: the first one of the next tile's columns if `part` is the last, and behind the
/// last columns that of the next product. From null: nothing.
template <std::int64_t columns, class T, class Operands>
DIPTYCH_INLINE Fetch<T> fetch_beside(const ProductCall<T, Operands>& call, const Chains& part, std::int64_t column) {
  if (call.fetched.ahead != nullptr) {
    return part.begin >= call.fetched.ahead_rows
               ? Fetch<T>{}
               : Fetch<T>{call.fetched.ahead + part.begin * call.fetched.ahead_step + column, call.fetched.ahead_step};
  }
  const Operands& operands = call.operands;
  const T* const next = part.end < call.depth                  ? operands.b + part.end * operands.b_step + column
                        : column + 2 * columns <= call.columns ? operands.b + column + columns
                                                               : call.fetched.next;
  return {next, operands.b_step};
}

/// The columns of one tile, for all rows. All rows read the same part of the right side: it is kept so short that it
/// stays in the L1 cache, which interrupts the chains of a few rows at a time. Each of the first rows' tiles may fetch
/// a line of every row of what fetch_beside() names.
template <class T, int lanes, int height, int width, class Operands>
DIPTYCH_INLINE void product_rows(const ProductCall<T, Operands>& call, std::int64_t column) {
  constexpr std::int64_t kDepth = 192;
  constexpr std::int64_t kTiles = 64 / height;
  T partial[kTiles * height * width * lanes];
  const bool is_read_again = call.row_count >= 4 * height;
  const std::int64_t parts = is_read_again ? std::max<std::int64_t>((call.depth + kDepth - 1) / kDepth, 1) : 1;
  const std::int64_t depth = (call.depth + parts - 1) / parts;
  std::int64_t row = 0;
  for (std::int64_t tiles = call.row_count / height; tiles > 0;) {
    const std::int64_t count = std::min(tiles, parts == 1 ? tiles : kTiles);
    for (std::int64_t i = 0; i < parts; ++i) {
      const Chains part = {i * depth, std::min((i + 1) * depth, call.depth)};
      for (std::int64_t tile = 0; tile < count; ++tile) {
        T* const waiting = partial + (parts == 1 ? 0 : tile * height * width * lanes);
        const std::int64_t at = row + tile * height;
        if constexpr (Operands::kFetches) {
          constexpr std::int64_t kColumns = std::int64_t{width} * lanes;
          constexpr std::int64_t kLine = 64 / sizeof(T);
          Fetch<T> fetch{};
          if (call.fetched.any && row == 0 && tile * kLine < kColumns) {
            fetch = fetch_beside<kColumns>(call, part, column);
          }
          if (fetch.from != nullptr) {
            fetch.from += tile * kLine;
            product_tile<T, lanes, height, width>(call, part, at, column, waiting, fetch);
            continue;
          }
        }
        product_tile<T, lanes, height, width>(call, part, at, column, waiting);
      }
    }
    row += count * height;
    tiles -= count;
  }
  if constexpr (height > 1) {
    last_rows<T, lanes, (height > 4 ? height / 2 : height - 1), width>(call, row, column);
  }
}

/// Each a function for itself: one of all widths would take the compiler twice as long.
template <class T, int lanes, int height, int width, class Operands>
struct ProductRows {
  DIPTYCH_INLINE static void run(const ProductCall<T, Operands>* call, std::int64_t column) {
    product_rows<T, lanes, height, width>(*call, column);
  }
};

template <class T, int lanes, int height, int width, class Operands>
DIPTYCH_INLINE void product_columns(const ProductCall<T, Operands>& call, std::int64_t column) {
  constexpr std::int64_t kStep = std::int64_t{width} * lanes;
  // One vector reads as many left sides as three: four are two tiles of two.
  constexpr bool kPairs = width == 3;
  for (; column + kStep <= call.columns && !(kPairs && call.columns - column == kStep + lanes); column += kStep) {
    entry_of<ProductRows<T, lanes, height, width, Operands>, lanes * sizeof(T)>()(&call, column);
  }
  if constexpr (width > 1) {
    product_columns<T, lanes, height, width - 1>(call, column);
  }
}

template <class T, int lanes, int height, int width, class Operands>
struct FewRows {
  DIPTYCH_INLINE static void run(const ProductCall<T, Operands>* call, std::int64_t column) {
    last_rows<T, lanes, height, width>(*call, 0, column);
  }
};

/// Of one tile's rows or fewer.
template <class T, int lanes, int height, int width, class Operands>
DIPTYCH_INLINE void few_rows(const ProductCall<T, Operands>& call, std::int64_t column) {
  constexpr std::int64_t kStep = std::int64_t{width} * lanes;
  for (; column + kStep <= call.columns; column += kStep) {
    entry_of<FewRows<T, lanes, height, width, Operands>, lanes * sizeof(T)>()(&call, column);
  }
  if constexpr (width > 1) {
    few_rows<T, lanes, height, width - 1>(call, column);
  }
}

/// Uses registers of `bytes` bytes: as many as `kHeight` * 3 sums, three right sides and one left side need, or the
/// same number for few rows.
template <class T, class Operands>
struct Product {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(const ProductCall<T, Operands>* call) {
      constexpr int kHeight = bytes / 8;
      constexpr int kLanes = bytes / static_cast<int>(sizeof(T));
      ProductCall<T, Operands> whole = *call;
      whole.columns = (call->columns + kLanes - 1) / kLanes * kLanes;
      if (2 * whole.row_count <= kHeight) {
        few_rows<T, kLanes, kHeight / 2, kHeight == 8 ? 6 : 4>(whole, 0);
      } else {
        product_columns<T, kLanes, kHeight, 3>(whole, 0);
      }
    }
  };
};

}  // namespace tiles

template <class T, class Operands>
void product(const ProductCall<T, Operands>& call) {
  active_of<tiles::Product<T, Operands>::template Of>()(&call);
}

}  // namespace diptych::kernels
