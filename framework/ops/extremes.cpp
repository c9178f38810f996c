// max and min: reductions whose result is one of the elements.

#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduce.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"

namespace diptych {
namespace {

using namespace ops;

/// 1 at the element that was taken; equal elements share it.
Tensor taken_share(const Tensor& x, const Tensor& kept, const Axes& axes) {
  const Tensor taken = cast(equal(x, kept), x.dtype());
  return div(taken, sum_over(taken, axes, true));
}

Gradients extreme_gradient(const VjpCall& v) {
  const Tensor share =
      taken_share(v.input(0), with_kept_axes<ReduceAttributes>(v.output, v), v.as<ReduceAttributes>().axes);
  return {mul(share, with_kept_axes<ReduceAttributes>(v.cotangent, v))};
}

Tensor extreme_tangent(const JvpCall& v) {
  const auto& attributes = v.as<ReduceAttributes>();
  const Tensor share = taken_share(v.input(0), with_kept_axes<ReduceAttributes>(v.output, v), attributes.axes);
  return sum_over(mul(share, v.tangent(0)), attributes.axes, attributes.keepdims);
}

OpDef extreme(const char* name, const char* doc, Kernel kernel) {
  return reduction_op({.name = name,
                       .doc = doc,
                       .inputs = 1,
                       .attributes = &attribute_type<ReduceAttributes>,
                       .infer = infer_reduction<Domain::any, true>,
                       .kernel = kernel,
                       .rows = reduced_rows<ReduceAttributes>,
                       .vjp = extreme_gradient,
                       .saves = {.inputs = 1, .output = true},
                       .jvp = extreme_tangent,
                       .flops = reduce_flops,
                       .samples = [] { return fold_samples(kAll, false); },
                       .family = "reduction"});
}

const Op kMax{extreme("max", "The largest element over axes",
                      kernels::through_float<reduce_kernel<kernels::Fold<kernels::MaxCombine>>>)};
const Op kMin{extreme("min", "The smallest element over axes",
                      kernels::through_float<reduce_kernel<kernels::Fold<kernels::MinCombine>>>)};

}  // namespace

namespace op {
const OpDef& max = *kMax;
const OpDef& min = *kMin;
}  // namespace op

Tensor max(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kMax, x, axes, keepdims, where);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kMin, x, axes, keepdims, where);
}

}  // namespace diptych
