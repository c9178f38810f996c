#pragma once

#include "framework/dispatch/apply.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/axis_attributes.h"
#include "framework/ops/define.h"

/// Shared by the files that define reductions.
namespace diptych::ops {

/// The output's shape; refuses anything but sorted axes of the input.
Shape reduced_shape(const InferCall& call, const Axes& axes, bool keepdims);
template <class A>
Shape reduced_shape(const InferCall& call) {
  return reduced_shape(call, call.as<A>().axes, call.as<A>().keepdims);
}
void require_element(const InferCall& call, const Shape& output);

/// If the last axis alone is reduced, or each channel of [batch, channels, ...] is, or each of its planes.
template <class A>
Rows reduced_rows(const InferCall& call, const TensorType& output) {
  const Axes& axes = call.as<A>().axes;
  const int rank = call.shape(0).rank();
  if (axes.rank() == 1 && axes[0] == rank - 1) {
    return rows_of_last_axis<1>(call, output);
  }
  const bool are_planes = axes.rank() > 1 && axes[0] == 2 && axes.rank() == rank - 2;
  const bool are_channels = axes.rank() > 1 && axes.rank() == rank - 1 && !axes.contains(1);
  return are_planes || are_channels ? rows_of_channels(call.shape(0)) : Rows{};
}

/// One operation per element of the input.
double reduce_flops(const InferCall& call, const TensorType& output);

/// A reduced tensor with the reduced axes restored with length 1; `shape`: the input's.
Tensor with_kept_axes(const Tensor& reduced, Shape shape, const Axes& axes, bool keepdims);
template <class A>
Tensor with_kept_axes(const Tensor& reduced, const VjpCall& v) {
  return with_kept_axes(reduced, v.input_type(0).shape, v.as<A>().axes, v.as<A>().keepdims);
}
template <class A>
Tensor with_kept_axes(const Tensor& reduced, const JvpCall& v) {
  return with_kept_axes(reduced, v.input(0).shape(), v.as<A>().axes, v.as<A>().keepdims);
}

/// The sum. Unlike the public sum, it returns x itself if there are no axes.
Tensor sum_over(const Tensor& x, const Axes& axes, bool keepdims);

/// Sorted, and none negative; all axes if none is given. Throws ShapeError for an axis that is out of range or given
/// twice.
Axes reduced_axes(const Tensor& x, const Axes& axes, const char* op, Location where);

/// Calls `fn.template operator()<T>()` with the element type; bool is passed as uint8, and bfloat16 never occurs.
template <class Fn>
void visit_arithmetic(DType dtype, const Fn& fn) {
  visit_computing(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      fn.template operator()<std::uint8_t>();
    } else if constexpr (!std::is_same_v<T, bfloat16>) {
      fn.template operator()<T>();
    }
  });
}

/// Shapes and axes on which every reduction is tested, for one dtype.
template <class A>
std::vector<Sample> reduction_samples(DType dtype, const A& base, double low = -2, double high = 2) {
  std::vector<Sample> samples;
  const auto add_sample = [&](SampleInput input, const Axes& axes, bool keepdims) {
    A attributes = base;
    attributes.axes = axes;
    attributes.keepdims = keepdims;
    samples.push_back(with({std::move(input)}, attributes));
  };
  const double least = dtype == DType::uint8 || dtype == DType::boolean ? 0 : low;
  const auto in = [&](const Shape& shape) { return sample(dtype, shape, least, high); };
  add_sample(in({5, 37}), {0}, false);
  add_sample(in({5, 37}), {1}, true);
  add_sample(in({37, 35}), {0, 1}, false);
  add_sample(in({3, 4, 5}), {0, 2}, true);
  add_sample(in({3, 4, 5}), {1}, false);
  add_sample(transposed(in({18, 21})), {0}, false);
  add_sample(transposed(in({18, 21})), {1}, false);
  return samples;
}
template <class A>
std::vector<Sample> reduction_samples(std::initializer_list<DType> dtypes, const A& base, double low = -2,
                                      double high = 2) {
  std::vector<Sample> samples;
  for (DType dtype : dtypes) {
    for (Sample& one : reduction_samples(dtype, base, low, high)) {
      samples.push_back(std::move(one));
    }
  }
  return samples;
}

// Shared by sum, prod, max, min, any and all.

template <Domain domain, bool needs_element>
void infer_reduction(const InferCall& call, TensorType& output) {
  check_domain<domain>(call, call.input(0).dtype);
  output.dtype = call.input(0).dtype;
  output.shape = reduced_shape<ReduceAttributes>(call);
  if (needs_element) {
    require_element(call, output.shape);
  }
}

template <class Body>
void reduce_kernel(const KernelCall& call) {
  const Axes& axes = static_cast<const ReduceAttributes*>(call.attributes)->axes;
  visit_arithmetic(call.inputs[0].type->dtype, [&]<class T>() {
    kernels::run_reduction<Body, T>(call.inputs[0], axes, nullptr, static_cast<T*>(call.output.data));
  });
}

/// The kernel for a body that takes attributes, for f32 and f64.
template <class Body, class A>
void floating_kernel(const KernelCall& call) {
  const auto* attributes = static_cast<const A*>(call.attributes);
  if (call.inputs[0].type->dtype == DType::float32) {
    kernels::run_reduction<Body, float>(call.inputs[0], attributes->axes, attributes,
                                        static_cast<float*>(call.output.data));
  } else {
    kernels::run_reduction<Body, double>(call.inputs[0], attributes->axes, attributes,
                                         static_cast<double*>(call.output.data));
  }
}

inline Tensor as_floating(const Tensor& x, Location where) {
  return is_floating(x.dtype()) ? x : as_type(x, DType::float32, where);
}

std::vector<Sample> fold_samples(std::initializer_list<DType> dtypes, bool with_empty);

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, bool keepdims, Location where);

}  // namespace diptych::ops
