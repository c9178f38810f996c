#include "framework/kernels/product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "framework/core/isa.h"
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

/// A tile of `height` rows by `width` vectors of `lanes`, held in registers.
template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_tile(const ProductCall<T>& call, std::int64_t row, std::int64_t column) {
  using Vector = typename Lanes<T, lanes>::Vector;
  using Loose = typename Lanes<T, lanes>::Loose;
  const T* a[height];
  Vector sums[height][width];
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    a[i] = call.rows[row + i];
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      sums[i][j] = Vector{};
    }
  }
  const T* const* b = call.b;
  const std::int64_t* const end = call.at + call.depth;
  for (const std::int64_t* at = call.at; at != end; ++at, ++b) {
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
#pragma GCC unroll 16
  for (int i = 0; i < height; ++i) {
    T* c = call.c + (row + i) * call.c_pitch + column;
#pragma GCC unroll 16
    for (int j = 0; j < width; ++j) {
      Loose& out = *reinterpret_cast<Loose*>(c + j * lanes);
      out = call.accumulate ? out + sums[i][j] : sums[i][j];
    }
  }
}

template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_rows(const ProductCall<T>& call, std::int64_t row, std::int64_t column) {
  for (; row + height <= call.row_count; row += height) {
    product_tile<T, lanes, height, width>(call, row, column);
  }
  if constexpr (height > 1) {
    product_rows<T, lanes, height / 2, width>(call, row, column);
  }
}

template <class T, int lanes, int height, int width>
DIPTYCH_INLINE void product_columns(const ProductCall<T>& call, std::int64_t column) {
  constexpr std::int64_t kStep = std::int64_t{width} * lanes;
  for (; column + kStep <= call.columns; column += kStep) {
    product_rows<T, lanes, height, width>(call, 0, column);
  }
  if constexpr (width > 1) {
    product_columns<T, lanes, height, width - 1>(call, column);
  }
}

/// Uses registers of `bytes` bytes: as many as `height` * 3 sums, three right sides and one left side need, or the same
/// number for few rows.
template <class T, int bytes, int height>
struct Product {
  DIPTYCH_INLINE static void run(const ProductCall<T>* call) {
    constexpr int kLanes = bytes / static_cast<int>(sizeof(T));
    ProductCall<T> whole = *call;
    whole.columns = (call->columns + kProductStep - 1) / kProductStep * kProductStep;
    if (2 * whole.row_count <= height) {
      product_columns<T, kLanes, height / 2, height == 8 ? 6 : 4>(whole, 0);
    } else {
      product_columns<T, kLanes, height, 3>(whole, 0);
    }
  }
};

}  // namespace

template <class T>
void product(const ProductCall<T>& call) {
  switch (active_isa()) {
    case Isa::generic:
      return PerIsa<Product<T, 16, 2>>::generic(&call);
    case Isa::avx2:
      return PerIsa<Product<T, 32, 4>>::avx2(&call);
    case Isa::avx512:
      return PerIsa<Product<T, 64, 8>>::avx512(&call);
  }
}

template void product(const ProductCall<float>&);
template void product(const ProductCall<double>&);

}  // namespace diptych::kernels
