#include "framework/kernels/column_product.h"

#include <algorithm>

#include "framework/core/square_block.h"
#include "framework/kernels/fused_add.h"
#include "framework/kernels/vector_length.h"

namespace diptych::kernels {
namespace {

/// A vector of rows at a time, whose sums are its lanes: blocks of the left side are transposed in registers.
template <class T>
struct ColumnProduct {
  template <int bytes>
  struct Of {
    static constexpr int kLanes = bytes / static_cast<int>(sizeof(T));
    using Vector = typename Vectors<T, kLanes>::Vector;
    using Loose = typename Vectors<T, kLanes>::Loose;

    DIPTYCH_INLINE static void run(const ColumnCall<T>* call) {
      const std::int64_t whole = call->depth / kLanes * kLanes;
      for (std::int64_t row = 0; row < call->rows; row += kLanes) {
        const T* a[kLanes];
        for (int i = 0; i < kLanes; ++i) {  // beyond the last row: that row again
          a[i] = call->a + std::min(row + i, call->rows - 1) * call->a_row;
        }
        Vector sums{};
        const T* x = call->x;
        for (std::int64_t k = 0; k < whole; k += kLanes) {
          SquareBlock<T, kLanes> block;
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) {
            block.rows[i] = *reinterpret_cast<const Loose*>(a[i] + k);
          }
          block.transpose();
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i, x += call->x_step) {
            add_product<T, kLanes>(block.rows[i], *x - Vector{}, sums);
          }
        }
        for (std::int64_t k = whole; k < call->depth; ++k, x += call->x_step) {
          Vector column{};
          for (int i = 0; i < kLanes; ++i) {
            column[i] = a[i][k];
          }
          add_product<T, kLanes>(column, *x - Vector{}, sums);
        }
        const std::int64_t count = std::min<std::int64_t>(kLanes, call->rows - row);
        for (std::int64_t i = 0; i < count; ++i) {
          call->c[row + i] = call->start != nullptr ? call->start[row + i] + sums[i] : sums[i];
        }
      }
    }
  };
};

}  // namespace

template <class T>
void column_product(const ColumnCall<T>& call) {
  active_of<ColumnProduct<T>::template Of>()(&call);
}

template void column_product(const ColumnCall<float>&);
template void column_product(const ColumnCall<double>&);

}  // namespace diptych::kernels
