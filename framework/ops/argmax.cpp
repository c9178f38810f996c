// argmax and argmin: indices of the largest and smallest elements.

#include <vector>

#include "framework/ops/elementwise.h"
#include "framework/ops/lines.h"
#include "framework/ops/reduce.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/storage_types.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// Whether `a` beats the champion `b`; NaN beats every number.
template <bool largest, class T>
DIPTYCH_INLINE bool beats(T a, T b) {
  return (largest ? a > b : a < b) || (a != a && b == b);
}

template <bool largest, class T>
struct ExtremeIndex {
  /// Processes neighbouring lines together, so that memory is read in order. `champions` has room for `inner` elements.
  DIPTYCH_INLINE static void run(const Lines* lines, const T* in, std::int64_t* out, T* champions) {
    const std::int64_t inner = lines->inner;
    if (inner == 1) {
      for (std::int64_t line = 0; line < lines->outer; ++line, in += lines->length) {
        out[line] = of_row(in, lines->length);
      }
      return;
    }
    for (std::int64_t o = 0; o < lines->outer; ++o, out += inner) {
      for (std::int64_t i = 0; i < inner; ++i) {
        champions[i] = in[i];
        out[i] = 0;
      }
      in += inner;
      for (std::int64_t k = 1; k < lines->length; ++k, in += inner) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < inner; ++i) {
          const bool better = beats<largest>(in[i], champions[i]);
          champions[i] = better ? in[i] : champions[i];
          out[i] = better ? k : out[i];
        }
      }
    }
  }

  static constexpr int kStride = 64;  ///< elements searched at once

  /// Finds the extreme by a vectorised reduction, then its first position.
  DIPTYCH_INLINE static std::int64_t of_row(const T* in, std::int64_t n) {
    using Combine = std::conditional_t<largest, kernels::MaxCombine, kernels::MinCombine>;
    const T best = kernels::reduce_dense<Combine>(in, n);
    std::int64_t at = 0;
    for (int found = 0; at + kStride <= n; at += kStride) {
      for (int i = 0; i < kStride; ++i) {
        found |= static_cast<int>(in[at + i] == best) | static_cast<int>(in[at + i] != in[at + i]);
      }
      if (found != 0) {
        break;
      }
    }
    while (in[at] != best && in[at] == in[at]) {
      ++at;
    }
    return at;
  }
};

template <bool largest>
void extreme_index_kernel(const KernelCall& call) {
  const Lines lines(call.inputs[0].type->shape, static_cast<const AxisAttributes*>(call.attributes)->axis);
  const kernels::Dense input(call.inputs[0]);
  visit_arithmetic(call.inputs[0].type->dtype, [&]<class T>() {
    std::vector<T> champions(lines.inner > 1 ? static_cast<std::size_t>(lines.inner) : 0);
    PerIsa<ExtremeIndex<largest, T>>::active()(&lines, static_cast<const T*>(input.data()),
                                               static_cast<std::int64_t*>(call.output.data), champions.data());
  });
}

void infer_extreme_index(const InferCall& call, TensorType& output) {
  const int axis = checked_axis(call, call.as<AxisAttributes>().axis);
  output.dtype = DType::int64;
  output.shape = Shape();
  for (int i = 0; i < call.shape(0).rank(); ++i) {
    if (i != axis) {
      output.shape.push_back(call.shape(0)[i]);
    }
  }
  require_element(call, output.shape);
}

std::vector<Sample> extreme_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kAll) {
    for (std::int64_t axis : {0, 1}) {
      const double low = dtype == DType::uint8 || dtype == DType::boolean ? 0 : -9;
      samples.push_back(with({sample(dtype, {6, 39}, low, 9)}, AxisAttributes{axis}));
    }
  }
  samples.push_back(with({transposed(sample(DType::float32, {5, 7}))}, AxisAttributes{1}));
  samples.push_back(with({sample(DType::float32, {2, 5, 3})}, AxisAttributes{1}));
  samples.push_back(with({sample(DType::float32, {0, 3})}, AxisAttributes{1}));
  return samples;
}

const Op kArgmax{{.name = "argmax",
                  .doc = "The first index of the largest element along an axis",
                  .inputs = 1,
                  .attributes = &attribute_type<AxisAttributes>,
                  .infer = infer_extreme_index,
                  .kernel = kernels::through_float<extreme_index_kernel<true>>,
                  .flops = reduce_flops,
                  .samples = extreme_samples,
                  .family = "reduction"}};

const Op kArgmin{{.name = "argmin",
                  .doc = "The first index of the smallest element along an axis",
                  .inputs = 1,
                  .attributes = &attribute_type<AxisAttributes>,
                  .infer = infer_extreme_index,
                  .kernel = kernels::through_float<extreme_index_kernel<false>>,
                  .flops = reduce_flops,
                  .samples = extreme_samples,
                  .family = "reduction"}};

Tensor extreme_index(const Op& op, const Tensor& x, std::optional<int> axis, bool keepdims, Location where) {
  if (!axis) {
    const AxisAttributes attributes{0};
    const Tensor index = apply_op(op, &attributes, where, reshape(comparable(x, where), {-1}, where));
    return keepdims ? reshape(index, Shape::filled(x.rank(), 1), where) : index;
  }
  const AxisAttributes attributes{normalise_axis(*axis, x.rank(), op->name, where)};
  const Tensor index = apply_op(op, &attributes, where, comparable(x, where));
  return keepdims ? unsqueeze(index, static_cast<int>(attributes.axis), where) : index;
}

}  // namespace

namespace op {
const OpDef& argmax = *kArgmax;
const OpDef& argmin = *kArgmin;
}  // namespace op

Tensor argmax(const Tensor& x, std::optional<int> axis, bool keepdims, Location where) {
  return extreme_index(kArgmax, x, axis, keepdims, where);
}
Tensor argmin(const Tensor& x, std::optional<int> axis, bool keepdims, Location where) {
  return extreme_index(kArgmin, x, axis, keepdims, where);
}

}  // namespace diptych
