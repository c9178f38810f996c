#include "framework/core/transpose.h"

#include "framework/core/isa.h"
#include "framework/core/square_block.h"

namespace diptych::kernels {
namespace {

// No vector crosses a call: these functions are always inlined into one whose target has the vectors.
#pragma GCC diagnostic ignored "-Wpsabi"

template <class T, int lanes>
DIPTYCH_INLINE void transpose_block(const T* in, std::int64_t in_pitch, T* out, std::int64_t out_pitch) {
  using Loose = typename Vectors<T, lanes>::Loose;
  SquareBlock<T, lanes> block;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    block.rows[i] = *reinterpret_cast<const Loose*>(in + i * in_pitch);
  }
  block.transpose();
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    *reinterpret_cast<Loose*>(out + i * out_pitch) = block.rows[i];
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
