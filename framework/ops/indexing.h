#pragma once

#include "framework/core/tensor.h"

/// Reading and writing at indices. Indices are integers (i32 and u8 are cast to i64) from 0 on; a negative one, or one
/// beyond the end of the axis, is an Error that names the op, the index and its position. Axes may be negative.
namespace diptych {

/// result[i][j] = x[index[i][j]][j] for axis 0, and so on. `index` has as many axes as x and is at most as long as x
/// along every axis but `axis`.
Tensor gather(const Tensor& x, int axis, const Tensor& index, Location where = Location::current());
/// x with its entries at `index` replaced by `source`, which has the shape of `index`. Where an index occurs twice, the
/// last entry wins, and it alone gets the gradient.
Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
               Location where = Location::current());
/// x with `source` added at `index`, one after the other in row-major order.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                   Location where = Location::current());
/// The same with products, or the greatest or least of the elements (NaN if one is). Equal extremes share the gradient.
Tensor scatter_mul(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                   Location where = Location::current());
Tensor scatter_max(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                   Location where = Location::current());
Tensor scatter_min(const Tensor& x, int axis, const Tensor& index, const Tensor& source,
                   Location where = Location::current());

/// The slices of x at `indices` along an axis, which is replaced by the axes of `indices` (any number of them).
Tensor index_select(const Tensor& x, int axis, const Tensor& indices, Location where = Location::current());
/// The elements of x, counted row-major, at `indices`; the result has the shape of `indices`.
Tensor take(const Tensor& x, const Tensor& indices, Location where = Location::current());
/// x with the slices of `source` added at `indices` along an axis, in the order of `indices`; `source` has the shape of
/// index_select(x, axis, indices).
Tensor index_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source,
                 Location where = Location::current());
/// indices: integers[...], weight: [entries, ...] -> [indices..., weight's other axes].
Tensor embedding(const Tensor& indices, const Tensor& weight, Location where = Location::current());

/// x with `value` where `mask` (bool, broadcasts) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Location where = Location::current());

/// indices: integers[...] -> dtype[..., depth] with a single 1 per row. Throws ShapeError for a depth below 1.
Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype = DType::float32,
               Location where = Location::current());

}  // namespace diptych
