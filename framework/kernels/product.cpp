#include "framework/kernels/product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <type_traits>

#include "framework/kernels/vector_length.h"
#include "framework/math/scalar_math.h"

namespace diptych::kernels {
namespace {

template <class T, int lanes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(sizeof(T) * lanes)));
  typedef T Loose __attribute__((vector_size(sizeof(T) * lanes), aligned(alignof(T)), may_alias));
};

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic ignored "-Wpsabi"

/// sum += a * b, one fma per lane. The loop over lanes becomes one instruction.
template <class T, int lanes>
DIPTYCH_INLINE void add_product(const typename Lanes<T, lanes>::Vector& a, const typename Lanes<T, lanes>::Vector& b,
                                typename Lanes<T, lanes>::Vector& sum) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> && lanes == 16) {
    sum = __builtin_ia32_vfmaddps512_mask(a, b, sum, -1, 4);
    return;
  } else if constexpr (std::is_same_v<T, double> && lanes == 8) {
    sum = __builtin_ia32_vfmaddpd512_mask(a, b, sum, -1, 4);
    return;
  } else if constexpr (std::is_same_v<T, float> && lanes == 8) {
    sum = __builtin_ia32_vfmaddps256(a, b, sum);
    return;
  } else if constexpr (std::is_same_v<T, double> && lanes == 4) {
    sum = __builtin_ia32_vfmaddpd256(a, b, sum);
    return;
  }
#endif
  for (int l = 0; l < lanes; ++l) {
    sum[l] = math::fma(a[l], b[l], sum[l]);
  }
}

/// A part of all chains of a product: `begin` to `end` of its depth.
struct Chains {
  std::int64_t begin, end;
};

/// A tile of `height` rows by `width` vectors of `lanes`, held in registers. Where a chain is interrupted, its sums
/// wait in `partial`.
template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_tile(const ProductCall<T>& call, const Chains& part, std::int64_t row, std::int64_t column,
                                 T* partial) {
  using Vector = typename Lanes<T, lanes>::Vector;
  using Loose = typename Lanes<T, lanes>::Loose;
  const T* a[height];
  Vector sums[height][width];
  const auto waiting = [&](int i, int j) __attribute__((always_inline))->Loose& {
    return *reinterpret_cast<Loose*>(partial + (i * width + j) * lanes);
  };
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    a[i] = call.rows[row + i];
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      sums[i][j] = part.begin == 0 ? Vector{} : waiting(i, j);
    }
  }
  const T* const* b = call.b + part.begin;
  const std::int64_t* const end = call.at + part.end;
  for (const std::int64_t* at = call.at + part.begin; at != end; ++at, ++b) {
    Vector right[width];
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      right[j] = *reinterpret_cast<const Loose*>(*b + column + j * lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < height; ++i) {
      const Vector left = a[i][*at] - Vector{};
#pragma GCC unroll 16
      for (int j = 0; j < width; ++j) {
        add_product<T, lanes>(left, right[j], sums[i][j]);
      }
    }
  }
  const bool ends = part.end == call.depth;
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    T* c = call.c + (row + i) * call.c_pitch + column;
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      if (!ends) {
        waiting(i, j) = sums[i][j];
        continue;
      }
      Loose& out = *reinterpret_cast<Loose*>(c + j * lanes);
      out = call.accumulate ? out + sums[i][j] : sums[i][j];
    }
  }
}

/// The columns of one tile, for all rows. All rows read the same part of the right side: it is kept so short that it
/// stays in the L1 cache, which interrupts the chains of a few rows at a time.
template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_rows(const ProductCall<T>& call, std::int64_t row, std::int64_t column) {
  constexpr std::int64_t kDepth = 192;
  constexpr std::int64_t kTiles = 64 / height;
  T partial[kTiles * height * width * lanes];
  const bool is_read_again = call.row_count >= 4 * height;
  const std::int64_t parts = is_read_again ? std::max<std::int64_t>((call.depth + kDepth - 1) / kDepth, 1) : 1;
  const std::int64_t depth = (call.depth + parts - 1) / parts;
  for (std::int64_t tiles = (call.row_count - row) / height; tiles > 0;) {
    const std::int64_t count = std::min(tiles, parts == 1 ? tiles : kTiles);
    for (std::int64_t i = 0; i < parts; ++i) {
      const Chains part = {i * depth, std::min((i + 1) * depth, call.depth)};
      for (std::int64_t tile = 0; tile < count; ++tile) {
        product_tile<T, lanes, height, width>(call, part, row + tile * height, column,
                                              partial + (parts == 1 ? 0 : tile * height * width * lanes));
      }
    }
    row += count * height;
    tiles -= count;
  }
  if constexpr (height > 1) {
    // Three rows are one tile: of two and one, both would wait for their sums.
    product_rows<T, lanes, (height > 4 ? height / 2 : height - 1), width>(call, row, column);
  }
}

template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_columns(const ProductCall<T>& call, std::int64_t column) {
  constexpr std::int64_t kStep = std::int64_t{width} * lanes;
  // So few sums wait for each other's latency that one vector takes as long as two: four are two tiles of two.
  constexpr bool kPairs = width == 3 && height == 4;
  for (; column + kStep <= call.columns && !(kPairs && call.columns - column == kStep + lanes); column += kStep) {
    product_rows<T, lanes, height, width>(call, 0, column);
  }
  if constexpr (width > 1) {
    product_columns<T, lanes, height, width - 1>(call, column);
  }
}

/// Uses registers of `bytes` bytes: as many as `kHeight` * 3 sums, three right sides and one left side need, or the
/// same number for few rows.
template <class T>
struct Product {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(const ProductCall<T>* call) {
      constexpr int kHeight = bytes / 8;
      constexpr int kLanes = bytes / static_cast<int>(sizeof(T));
      ProductCall<T> whole = *call;
      whole.columns = (call->columns + kLanes - 1) / kLanes * kLanes;
      if (2 * whole.row_count <= kHeight) {
        product_columns<T, kLanes, kHeight / 2, kHeight == 8 ? 6 : 4>(whole, 0);
      } else {
        product_columns<T, kLanes, kHeight, 3>(whole, 0);
      }
    }
  };
};

}  // namespace

template <class T>
void product(const ProductCall<T>& call) {
  active_of<Product<T>::template Of>()(&call);
}

template void product(const ProductCall<float>&);
template void product(const ProductCall<double>&);

}  // namespace diptych::kernels
