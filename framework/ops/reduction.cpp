#include "framework/ops/reduction.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/reduce.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/storage_types.h"
#include "framework/ops/view.h"

namespace diptych::ops {

Shape reduced_shape(const InferCall& call, const Axes& axes, bool keepdims) {
  Shape shape;
  std::int64_t last = -1;
  for (std::int64_t axis : axes) {
    if (axis <= last || axis >= call.shape(0).rank()) {
      call.fail_shape("the axes are not sorted axes of the input", "");
    }
    last = axis;
  }
  for (int axis = 0; axis < call.shape(0).rank(); ++axis) {
    if (!axes.contains(axis)) {
      shape.push_back(call.shape(0)[axis]);
    } else if (keepdims) {
      shape.push_back(1);
    }
  }
  return shape;
}

void require_element(const InferCall& call, const Shape& output) {
  if (output.product() > 0 && call.shape(0).product() == 0) {
    call.fail_shape("there is no element to take", "the reduced axes must not be empty");
  }
}

double reduce_flops(const InferCall& call, const TensorType& /*output*/) {
  return static_cast<double>(call.shape(0).product());
}

Tensor with_kept_axes(const Tensor& reduced, Shape shape, const Axes& axes, bool keepdims) {
  if (keepdims) {
    return reduced;
  }
  for (std::int64_t axis : axes) {
    shape[static_cast<int>(axis)] = 1;
  }
  return reshape(reduced, shape);
}

Tensor sum_over(const Tensor& x, const Axes& axes, bool keepdims) { return axes.empty() ? x : sum(x, axes, keepdims); }

Axes reduced_axes(const Tensor& x, const Axes& axes, const char* op, Location where) {
  std::uint32_t chosen = axes.empty() ? (1U << x.rank()) - 1 : 0;
  for (std::int64_t axis : axes) {
    const std::uint32_t bit = 1U << normalise_axis(axis, x.rank(), op, where);
    if ((chosen & bit) != 0) {
      throw ShapeError(fmt::format("{}: axis {} is given twice in {}", op, axis, to_string(axes)), where,
                       "give each axis once");
    }
    chosen |= bit;
  }
  Axes sorted;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (((chosen >> axis) & 1U) != 0) {
      sorted.push_back(axis);
    }
  }
  return sorted;
}

std::vector<Sample> fold_samples(std::initializer_list<DType> dtypes, bool with_empty) {
  std::vector<Sample> samples = reduction_samples(dtypes, ReduceAttributes{});
  samples.push_back(with({sample(DType::float64, {})}, ReduceAttributes{}));
  samples.push_back(with({sample(DType::float32, {9001})}, ReduceAttributes{{0}, false}));
  samples.push_back(with({sample(DType::float32, {4500, 9})}, ReduceAttributes{{0}, false}));
  if (with_empty) {
    samples.push_back(with({sample(DType::float64, {0, 3})}, ReduceAttributes{{0}, false}));
  }
  samples.push_back(with({sample(DType::float64, {3, 0})}, ReduceAttributes{{0}, false}));
  return samples;
}

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  const ReduceAttributes attributes{reduced_axes(x, axes, op->name, where), keepdims};
  if (is_storage(x.dtype())) {
    const bool is_extreme = &*op == &diptych::op::max || &*op == &diptych::op::min;
    if (is_extreme && x.dtype() == DType::uint64) {
      return from_ordered(apply_op(op, &attributes, where, ordered(x, where)), where);
    }
    return stored(apply_op(op, &attributes, where, computing(x, where)), x.dtype(), where);
  }
  return apply_op(op, &attributes, where, x);
}

}  // namespace diptych::ops

namespace diptych {
namespace {

using namespace ops;

const Op kSum{reduction_op({.name = "sum",
                            .doc = "The sum over axes",
                            .inputs = 1,
                            .attributes = &attribute_type<ReduceAttributes>,
                            .infer = infer_reduction<Domain::numeric, false>,
                            .kernel = kernels::through_float<reduce_kernel<kernels::Fold<kernels::SumCombine>>>,
                            .rows = reduced_rows<ReduceAttributes>,
                            .vjp = [](const VjpCall& v) -> Gradients {
                              return {expand(with_kept_axes<ReduceAttributes>(v.cotangent, v), v.input_type(0).shape)};
                            },
                            .linear = 1,
                            .flops = reduce_flops,
                            .samples = [] { return fold_samples(kNumbers, true); },
                            .family = "reduction"})};

/// For each element, the product of all the others. It doesn't divide, so zeros are no special case: pairs are
/// multiplied, then pairs of pairs, and so on; the others of an element are its siblings on the way up.
Tensor product_of_others(const Tensor& x, const Axes& axes) {
  // The reduced axes are moved to the end, merged into one, and padded with ones to a power of two.
  Axes order;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!axes.contains(axis)) {
      order.push_back(axis);
    }
  }
  const int kept = order.rank();
  Axes inverse = Axes::filled(x.rank(), 0);
  for (std::int64_t axis : axes) {
    order.push_back(axis);
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    inverse[static_cast<int>(order[axis])] = axis;
  }
  const Tensor last = permute(x, order);
  std::int64_t rows = 1;
  for (int axis = 0; axis < kept; ++axis) {
    rows *= last.shape()[axis];
  }
  const std::int64_t n = rows == 0 ? 0 : x.numel() / rows;
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  Tensor level = reshape(last, {rows, n});
  if (padded != n) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      positions[static_cast<std::size_t>(i)] = i;
    }
    const Tensor room = expand(full_like(x, 1.0, Shape{}), {rows, padded});
    const Tensor index = expand(Tensor::from(positions, {1, n}), {rows, n});
    level = scatter(room, 1, index, level);
  }
  const Tensor swap = Tensor::from({std::int64_t{1}, std::int64_t{0}}, {2});
  Tensor others;
  for (std::int64_t length = padded; length > 1; length /= 2) {
    const Tensor pairs = reshape(level, {rows, length / 2, 2});
    const Tensor siblings = reshape(index_select(pairs, 2, swap), {rows, length, 1});
    const Tensor spread = reshape(expand(siblings, {rows, length, padded / length}), {rows, padded});
    others = others.defined() ? mul(others, spread) : spread;
    level = mul(slice(pairs, 2, 0, 1), slice(pairs, 2, 1, 2));
  }
  if (!others.defined()) {
    return full_like(x, 1.0);
  }
  const Tensor unpadded = padded == n ? others : slice(others, 1, 0, n);
  return permute(reshape(unpadded, last.shape()), inverse);
}

const Op kProd{reduction_op({.name = "prod",
                             .doc = "The product over axes",
                             .inputs = 1,
                             .attributes = &attribute_type<ReduceAttributes>,
                             .infer = infer_reduction<Domain::numeric, false>,
                             .kernel = kernels::through_float<reduce_kernel<kernels::Fold<kernels::ProductCombine>>>,
                             .rows = reduced_rows<ReduceAttributes>,
                             .vjp = [](const VjpCall& v) -> Gradients {
                               if (v.input(0).numel() == 0) {
                                 return {full_like(v.input(0), 0.0)};
                               }
                               return {mul(with_kept_axes<ReduceAttributes>(v.cotangent, v),
                                           product_of_others(v.input(0), v.as<ReduceAttributes>().axes))};
                             },
                             .saves = {.inputs = 1},
                             .jvp = [](const JvpCall& v) -> Tensor {
                               if (v.input(0).numel() == 0) {
                                 return full_like(v.output, 0.0);
                               }
                               const auto& attributes = v.as<ReduceAttributes>();
                               const Tensor slopes = product_of_others(v.input(0), attributes.axes);
                               return sum_over(mul(slopes, v.tangent(0)), attributes.axes, attributes.keepdims);
                             },
                             .flops = reduce_flops,
                             .samples = [] { return fold_samples(kNumbers, true); },
                             .family = "reduction"})};

}  // namespace

namespace op {
const OpDef& sum = *kSum;
const OpDef& prod = *kProd;
}  // namespace op

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kSum, is_floating(x.dtype()) ? x : cast(x, DType::int64, where), axes, keepdims, where);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  const Tensor total = sum(is_floating(x.dtype()) ? x : cast(x, DType::float32, where), axes, keepdims, where);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(std::max<std::int64_t>(total.numel(), 1));
  return div(total, full_like(total, count, Shape{}, where), where);
}

Tensor prod(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kProd, is_floating(x.dtype()) ? x : cast(x, DType::int64, where), axes, keepdims, where);
}
}  // namespace diptych
