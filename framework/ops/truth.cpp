// any and all: reductions that test whether elements differ from 0.

#include "framework/ops/reduce.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"

namespace diptych {
namespace {

using namespace ops;

template <class Combine>
struct Truth {
  template <class Elements>
  DIPTYCH_INLINE static void run(const Elements& elements, const void* /*attributes*/, std::uint8_t* out) {
    elements.template pass<Combine, std::uint8_t>(
        [](auto x, int) { return static_cast<std::uint8_t>(x != decltype(x)(0)); }, out);
  }
};

template <class Combine>
void truth_kernel(const KernelCall& call) {
  const Axes& axes = static_cast<const ReduceAttributes*>(call.attributes)->axes;
  visit_arithmetic(call.inputs[0].type->dtype, [&]<class T>() {
    kernels::run_reduction<Truth<Combine>, T>(call.inputs[0], axes, nullptr,
                                              static_cast<std::uint8_t*>(call.output.data));
  });
}

void infer_truth(const InferCall& call, TensorType& output) {
  output.dtype = DType::boolean;
  output.shape = reduced_shape<ReduceAttributes>(call);
}

/// Only 0s and 1s are combined, so 0 and 1 are the identities.
const Op kAny{reduction_op({.name = "any",
                            .doc = "Whether any element over axes differs from 0",
                            .inputs = 1,
                            .attributes = &attribute_type<ReduceAttributes>,
                            .infer = infer_truth,
                            .kernel = kernels::through_float<truth_kernel<kernels::MaxCombine>>,
                            .rows = reduced_rows<ReduceAttributes>,
                            .flops = reduce_flops,
                            .samples = [] { return fold_samples(kAll, true); },
                            .family = "reduction"})};

struct AndCombine : kernels::MinCombine {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return T(1);
  }
};

const Op kAllTrue{reduction_op({.name = "all",
                                .doc = "Whether every element over axes differs from 0",
                                .inputs = 1,
                                .attributes = &attribute_type<ReduceAttributes>,
                                .infer = infer_truth,
                                .kernel = kernels::through_float<truth_kernel<AndCombine>>,
                                .rows = reduced_rows<ReduceAttributes>,
                                .flops = reduce_flops,
                                .samples = [] { return fold_samples(kAll, true); },
                                .family = "reduction"})};

}  // namespace

namespace op {
const OpDef& any = *kAny;
const OpDef& all = *kAllTrue;
}  // namespace op

Tensor any(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kAny, x, axes, keepdims, where);
}
Tensor all(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return reduce(kAllTrue, x, axes, keepdims, where);
}

}  // namespace diptych
