#include "framework/core/transpose.h"

#include "framework/core/isa.h"

namespace diptych::kernels {
namespace {

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic ignored "-Wpsabi"

/// A block of `lanes` by `lanes`: interleaving the two halves of the list of rows, as often as the list can be halved,
/// turns it into the columns.
template <class T, int lanes>
DIPTYCH_INLINE void transpose_block(const T* in, std::int64_t in_pitch, T* out, std::int64_t out_pitch) {
  typedef T Vector __attribute__((vector_size(sizeof(T) * lanes)));
  typedef T Loose __attribute__((vector_size(sizeof(T) * lanes), aligned(alignof(T)), may_alias));
  Vector rows[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    rows[i] = *reinterpret_cast<const Loose*>(in + i * in_pitch);
  }
#pragma GCC unroll 4
  for (int step = 1; step < lanes; step *= 2) {
    Vector next[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes / 2; ++i) {
      const Vector a = rows[i];
      const Vector b = rows[i + lanes / 2];
      if constexpr (lanes == 16) {
        next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      } else if constexpr (lanes == 8) {
        next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      } else if constexpr (lanes == 4) {
        next[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        next[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      } else {
        next[2 * i] = __builtin_shufflevector(a, b, 0, 2);
        next[2 * i + 1] = __builtin_shufflevector(a, b, 1, 3);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      rows[i] = next[i];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    *reinterpret_cast<Loose*>(out + i * out_pitch) = rows[i];
  }
}

template <class Element, int bytes>
struct Transpose {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t columns, const void* from, std::int64_t in_pitch,
                                 void* to, std::int64_t out_pitch) {
    typedef Element T __attribute__((may_alias));
    const auto* in = static_cast<const T*>(from);
    auto* out = static_cast<T*>(to);
    constexpr int kLanes = bytes / static_cast<int>(sizeof(T));
    std::int64_t column = 0;
    for (; column + kLanes <= columns; column += kLanes) {
      std::int64_t row = 0;
      for (; row + kLanes <= rows; row += kLanes) {
        transpose_block<Element, kLanes>(in + row * in_pitch + column, in_pitch, out + column * out_pitch + row,
                                         out_pitch);
      }
      for (; row < rows; ++row) {
        for (std::int64_t j = column; j < column + kLanes; ++j) {
          out[j * out_pitch + row] = in[row * in_pitch + j];
        }
      }
    }
    for (; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row) {
        out[column * out_pitch + row] = in[row * in_pitch + column];
      }
    }
  }
};

template <class T>
void transpose(std::int64_t rows, std::int64_t columns, const void* in, std::int64_t in_pitch, void* out,
               std::int64_t out_pitch) {
  switch (active_isa()) {
    case Isa::generic:
      return PerIsa<Transpose<T, 16>>::generic(rows, columns, in, in_pitch, out, out_pitch);
    case Isa::avx2:
      return PerIsa<Transpose<T, 32>>::avx2(rows, columns, in, in_pitch, out, out_pitch);
    case Isa::avx512:
      return PerIsa<Transpose<T, 64>>::avx512(rows, columns, in, in_pitch, out, out_pitch);
  }
}

}  // namespace

void transpose_elements(std::size_t size, std::int64_t rows, std::int64_t columns, const void* in,
                        std::int64_t in_pitch, void* out, std::int64_t out_pitch) {
  if (size == sizeof(float)) {
    transpose<float>(rows, columns, in, in_pitch, out, out_pitch);
  } else {
    transpose<double>(rows, columns, in, in_pitch, out, out_pitch);
  }
}

}  // namespace diptych::kernels
