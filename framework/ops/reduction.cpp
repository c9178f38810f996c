#include "framework/ops/reduction.h"

#include <algorithm>

#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/creation.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

struct ReduceAttributes {
  Axes axes;  ///< sorted, each once, none negative
  bool keepdims = false;
  static constexpr auto fields() {
    return std::tuple(field("axes", &ReduceAttributes::axes), field("keepdims", &ReduceAttributes::keepdims));
  }
};

Shape reduced_shape(const InferCall& call, const ReduceAttributes& attributes) {
  Shape shape;
  std::int64_t last = -1;
  for (std::int64_t axis : attributes.axes) {
    if (axis <= last || axis >= call.shape(0).rank()) {
      call.fail_shape("the axes are not sorted axes of the input", "");
    }
    last = axis;
  }
  for (int axis = 0; axis < call.shape(0).rank(); ++axis) {
    if (!attributes.axes.contains(axis)) {
      shape.push_back(call.shape(0)[axis]);
    } else if (attributes.keepdims) {
      shape.push_back(1);
    }
  }
  return shape;
}

template <bool needs_element>
void infer_reduction(const InferCall& call, TensorType& output) {
  check_domain<Domain::numeric>(call, call.input(0).dtype);
  const auto& attributes = call.as<ReduceAttributes>();
  output.dtype = call.input(0).dtype;
  output.shape = reduced_shape(call, attributes);
  if (needs_element && output.shape.product() > 0 && call.shape(0).product() == 0) {
    call.fail_shape("there is no element to take", "the reduced axes must not be empty");
  }
}

template <class Combine>
void reduce_kernel(const KernelCall& call) {
  const auto& attributes = *static_cast<const ReduceAttributes*>(call.attributes);
  const kernels::ReductionPlan plan = kernels::plan_reduction(call.inputs[0], attributes.axes);
  visit(call.inputs[0].type->dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, bfloat16>) {
      PerIsa<kernels::Reduction<Combine, T>>::active()(&plan, static_cast<const T*>(call.inputs[0].data),
                                                       static_cast<T*>(call.output.data));
    }
  });
}

double reduce_flops(const InferCall& call, const TensorType& /*output*/) {
  return static_cast<double>(call.shape(0).product());
}

/// A reduced tensor with the axes put back as length 1.
Tensor with_kept_axes(const Tensor& reduced, const VjpCall& v) {
  const auto& attributes = v.as<ReduceAttributes>();
  if (attributes.keepdims) {
    return reduced;
  }
  Shape shape = v.input_type(0).shape;
  for (std::int64_t axis : attributes.axes) {
    shape[static_cast<int>(axis)] = 1;
  }
  return reshape(reduced, shape);
}

std::vector<Sample> reduction_samples(bool with_empty) {
  std::vector<Sample> samples;
  const auto add_sample = [&](SampleInput input, const Axes& axes, bool keepdims) {
    const ReduceAttributes attributes{axes, keepdims};
    samples.push_back({{std::move(input)}, AttributeValue(&attribute_type<ReduceAttributes>, &attributes)});
  };
  for (DType dtype : kFloats) {
    add_sample(sample(dtype, {5, 37}), {0}, false);
    add_sample(sample(dtype, {5, 37}), {1}, true);
    add_sample(sample(dtype, {37, 35}), {0, 1}, false);
    add_sample(sample(dtype, {3, 4, 5}), {0, 2}, true);
    add_sample(sample(dtype, {3, 4, 5}), {1}, false);
    add_sample(transposed(sample(dtype, {18, 21})), {0}, false);
    add_sample(transposed(sample(dtype, {18, 21})), {1}, false);
    add_sample(sample(dtype, {}), {}, false);
  }
  add_sample(sample(DType::float32, {9001}), {0}, false);
  add_sample(sample(DType::int64, {6, 7}, -9, 9), {1}, false);
  if (with_empty) {
    add_sample(sample(DType::float64, {0, 3}), {0}, false);
  }
  return samples;
}

const Op kSum{{.name = "sum",
               .doc = "The sum over axes",
               .inputs = 1,
               .attributes = &attribute_type<ReduceAttributes>,
               .infer = infer_reduction<false>,
               .kernel = kernels::through_float<reduce_kernel<kernels::SumCombine>>,
               .vjp = [](const VjpCall& v) -> Gradients {
                 return {expand(with_kept_axes(v.cotangent, v), v.input_type(0).shape)};
               },
               .linear = 1,
               .flops = reduce_flops,
               .samples = [] { return reduction_samples(true); },
               .family = "reduction"}};

struct MaxCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::maximum(a, b);
  }
};
struct MinCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::minimum(a, b);
  }
};

/// To the elements that were taken; equal ones share it.
Gradients extreme_gradient(const VjpCall& v) {
  const auto& attributes = v.as<ReduceAttributes>();
  const Tensor taken = cast(equal(v.input(0), with_kept_axes(v.output, v)), v.input_type(0).dtype);
  const Tensor share = with_kept_axes(v.cotangent, v) / sum(taken, attributes.axes, true);
  return {mul(taken, share)};
}

const Op kMax{{.name = "max",
               .doc = "The largest element over axes",
               .inputs = 1,
               .attributes = &attribute_type<ReduceAttributes>,
               .infer = infer_reduction<true>,
               .kernel = kernels::through_float<reduce_kernel<MaxCombine>>,
               .vjp = extreme_gradient,
               .saves = {.inputs = 1, .output = true},
               .flops = reduce_flops,
               .samples = [] { return reduction_samples(false); },
               .family = "reduction"}};

const Op kMin{{.name = "min",
               .doc = "The smallest element over axes",
               .inputs = 1,
               .attributes = &attribute_type<ReduceAttributes>,
               .infer = infer_reduction<true>,
               .kernel = kernels::through_float<reduce_kernel<MinCombine>>,
               .vjp = extreme_gradient,
               .saves = {.inputs = 1, .output = true},
               .flops = reduce_flops,
               .samples = [] { return reduction_samples(false); },
               .family = "reduction"}};

struct AxisAttributes {
  std::int64_t axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttributes::axis)); }
};

void argmax_kernel(const KernelCall& call) {
  const Axes axes{static_cast<const AxisAttributes*>(call.attributes)->axis};
  const kernels::ReductionPlan plan = kernels::plan_reduction(call.inputs[0], axes);
  const std::int64_t stride = plan.reduced_rank == 1 ? plan.reduced_strides[0] : 0;
  auto* out = static_cast<std::int64_t*>(call.output.data);
  visit(call.inputs[0].type->dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < plan.outputs; ++i) {
      const T* in =
          static_cast<const T*>(call.inputs[0].data) + plan.offset(i, plan.kept_rank, plan.kept, plan.kept_strides);
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < plan.length; ++k) {
        const T candidate = in[k * stride];
        const T champion = in[best * stride];
        const bool larger = candidate > champion || (candidate != candidate && champion == champion);
        best = larger ? k : best;
      }
      out[i] = best;
    }
  });
}

const Op kArgmax{{.name = "argmax",
                  .doc = "The first index of the largest element along an axis",
                  .inputs = 1,
                  .attributes = &attribute_type<AxisAttributes>,
                  .infer =
                      [](const InferCall& call, TensorType& output) {
                        const std::int64_t axis = call.as<AxisAttributes>().axis;
                        if (axis < 0 || axis >= call.shape(0).rank()) {
                          call.fail_shape("the axis is out of range", "");
                        }
                        if (call.shape(0)[static_cast<int>(axis)] == 0) {
                          call.fail_shape("there is no element to take", "the axis must not be empty");
                        }
                        output.dtype = DType::int64;
                        output.shape = Shape();
                        for (int i = 0; i < call.shape(0).rank(); ++i) {
                          if (i != axis) {
                            output.shape.push_back(call.shape(0)[i]);
                          }
                        }
                      },
                  .kernel = argmax_kernel,
                  .flops = reduce_flops,
                  .samples =
                      [] {
                        std::vector<Sample> samples;
                        for (std::int64_t axis : {0, 1}) {
                          const AxisAttributes attributes{axis};
                          samples.push_back({{sample(DType::float32, {6, 9})},
                                             AttributeValue(&attribute_type<AxisAttributes>, &attributes)});
                        }
                        return samples;
                      },
                  .family = "reduction"}};

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  ReduceAttributes attributes{{}, keepdims};
  std::uint32_t chosen = axes.empty() ? (1U << x.rank()) - 1 : 0;
  for (std::int64_t axis : axes) {
    chosen |= 1U << normalise_axis(axis, x.rank(), op->name, where);
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (((chosen >> axis) & 1U) != 0) {
      attributes.axes.push_back(axis);
    }
  }
  return apply_op(op, &attributes, where, x);
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kSum, is_floating(x.dtype()) ? x : cast(x, DType::int64, where), axes, keepdims, where);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  const Tensor total = sum(is_floating(x.dtype()) ? x : cast(x, DType::float32, where), axes, keepdims, where);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(std::max<std::int64_t>(total.numel(), 1));
  return div(total, full_like(total, count, Shape{}, where), where);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kMax, x, axes, keepdims, where);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kMin, x, axes, keepdims, where);
}

Tensor argmax(const Tensor& x, int axis, Location where) {
  const AxisAttributes attributes{normalise_axis(axis, x.rank(), "argmax", where)};
  return apply_op(kArgmax, &attributes, where, x);
}

}  // namespace diptych
