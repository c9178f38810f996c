#pragma once

#include <cstdint>

namespace diptych::kernels {

/// c[i] = start[i] + the sum over k of a[i * a_row + k] * x[k * x_step], one chain of fma in the order of
/// k for each i: a product with one column, whose left side is read where it lies.
template <class T>
struct ColumnCall {
  std::int64_t rows;
  std::int64_t depth;
  const T* a;
  std::int64_t a_row;
  const T* x;
  std::int64_t x_step;
  const T* start;  ///< null: the sum alone
  T* c;
};

template <class T>
void column_product(const ColumnCall<T>& call);

}  // namespace diptych::kernels
