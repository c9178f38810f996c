#pragma once

#include <vector>

#include "framework/diptych.h"

namespace diptych::testing {

/// The same elements in other layouts.
inline std::vector<Tensor> layouts(const Tensor& x) {
  const int rank = x.rank();
  std::vector<Tensor> result = {x, transpose(contiguous(transpose(x)))};
  // Rows at a distance; nothing dense; the first axis innermost.
  result.push_back(slice(concat({x, x}, -1), -1, 0, x.shape().back()));
  result.push_back(slice(reshape(stack({x, x}, -1),
                                 [&] {
                                   Shape shape = x.shape();
                                   shape[rank - 1] *= 2;
                                   return shape;
                                 }()),
                         -1, 0, 2 * x.shape().back(), 2));
  result.push_back(transpose(contiguous(transpose(x, 0, -1)), 0, -1));
  // Columns at a distance.
  result.push_back(transpose(slice(contiguous(transpose(concat({x, x}, -2))), -1, 0, x.shape()[rank - 2])));
  return result;
}

}  // namespace diptych::testing
