// logsumexp: a reduction that makes two passes over its elements.

#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduce.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

struct LogSumExp {
  template <class Elements, class T>
  DIPTYCH_INLINE static void run(const Elements& elements, const void* /*attributes*/, T* out) {
    T shifts[Elements::kWidth];
    elements.template pass<kernels::MaxCombine, T>([](T x, int) { return x; }, shifts);
    for (int w = 0; w < elements.width(); ++w) {
      // If infinite, no shift: inf - inf would be NaN, while exp and log give the right result without one.
      shifts[w] = math::abs(shifts[w]) <= std::numeric_limits<T>::max() ? shifts[w] : T(0);
    }
    elements.template pass<kernels::SumCombine, T>([&](T x, int w) { return math::exp(x - shifts[w]); }, out);
    for (int w = 0; w < elements.width(); ++w) {
      out[w] = math::log(out[w]) + shifts[w];
    }
  }
};

/// softmax(x) over the axes; 0 where every element is -inf
Tensor softmax_over(const Tensor& x, const Tensor& kept) {
  const Tensor nothing = equal(kept, full_like(kept, -std::numeric_limits<double>::infinity(), Shape{}));
  return exp(sub(x, where(nothing, full_like(kept, 0.0, Shape{}), kept)));
}

const Op kLogSumExp{reduction_op(
    {.name = "logsumexp",
     .doc = "log(sum(exp(x))) over axes, without its overflow",
     .inputs = 1,
     .attributes = &attribute_type<ReduceAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           check_domain<Domain::floating>(call, call.input(0).dtype);
           output.dtype = call.input(0).dtype;
           output.shape = reduced_shape<ReduceAttributes>(call);
         },
     .kernel = kernels::through_float<floating_kernel<LogSumExp, ReduceAttributes>>,
     .rows = reduced_rows<ReduceAttributes>,
     .vjp = [](const VjpCall& v) -> Gradients {
       return {mul(softmax_over(v.input(0), with_kept_axes<ReduceAttributes>(v.output, v)),
                   with_kept_axes<ReduceAttributes>(v.cotangent, v))};
     },
     .saves = {.inputs = 1, .output = true},
     .jvp = [](const JvpCall& v) -> Tensor {
       const auto& attributes = v.as<ReduceAttributes>();
       const Tensor weights = softmax_over(v.input(0), with_kept_axes<ReduceAttributes>(v.output, v));
       return sum_over(mul(weights, v.tangent(0)), attributes.axes, attributes.keepdims);
     },
     .flops = [](const InferCall& call, const TensorType& output) { return 20 * reduce_flops(call, output); },
     .samples =
         [] {
           std::vector<Sample> samples = reduction_samples(kFloats, ReduceAttributes{});
           samples.push_back(with({sample(DType::float64, {4, 9}, -900, 900)}, ReduceAttributes{{1}, false}));
           samples.push_back(with({sample(DType::float64, {0, 3})}, ReduceAttributes{{0}, false}));
           samples.push_back(with({sample(DType::float64, {})}, ReduceAttributes{}));
           return samples;
         },
     .family = "reduction"})};

}  // namespace

namespace op {
const OpDef& logsumexp = *kLogSumExp;
}  // namespace op

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  const ReduceAttributes attributes{reduced_axes(x, axes, "logsumexp", where), keepdims};
  return apply_op(kLogSumExp, &attributes, where, as_floating(x, where));
}

}  // namespace diptych
