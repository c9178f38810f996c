#include "framework/ops/softmax.h"

#include "framework/core/parallel.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/softmax_row.h"
#include "framework/kernels/vector_length.h"
#include "framework/kernels/wide_float.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;
using kernels::SumCombine;

template <class T, bool logarithm>
struct SoftmaxRows {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t columns, const T* in, T* out) {
      for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
        const T largest = logarithm ? kernels::reduce_dense<kernels::MaxCombine>(in, columns)
                                    : kernels::largest_for_shift<bytes>(columns, in);
        const T total = kernels::exponentials(columns, in, T(1), largest, out);
        if constexpr (logarithm) {
          const T shift = math::log(total);
#pragma GCC ivdep
          for (std::int64_t i = 0; i < columns; ++i) {
            out[i] = (in[i] - largest) - shift;
          }
        } else {
          kernels::divide_by_sum(columns, total, out);
        }
      }
    }
  };
  static auto active() { return kernels::active_of<Of>(); }
};

template <class T, bool logarithm>
struct BackwardRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t columns, const T* dy, const T* y, T* out) {
    for (std::int64_t row = 0; row < rows; ++row, dy += columns, y += columns, out += columns) {
      if constexpr (logarithm) {
        const T total = kernels::reduce_dense<SumCombine>(dy, columns);
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          out[i] = dy[i] - math::exp(y[i]) * total;
        }
      } else {
        const T total = kernels::detail::reduce<SumCombine, T>(columns, [=](std::int64_t i) { return dy[i] * y[i]; });
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          out[i] = y[i] * (dy[i] - total);
        }
      }
    }
  }
  static auto active() { return PerIsa<BackwardRows>::active(); }
};

/// Rows<T>::active() of (rows, columns, inputs..., output), over the last axis.
template <template <class> class Rows, std::size_t... I>
void run_rows(const KernelCall& call, std::index_sequence<I...> /*inputs*/) {
  const Shape& shape = call.output.type->shape;
  const std::int64_t columns = shape.back();
  const std::int64_t rows = columns == 0 ? 0 : shape.product() / columns;
  const kernels::Dense inputs[] = {kernels::Dense(call.inputs[I])...};
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    constexpr double kNanosecondsOfElement = 0.5;
    parallel_for(
        rows, kNanosecondsOfElement * static_cast<double>(columns), [&](std::int64_t first, std::int64_t last) {
          Rows<T>::active()(last - first, columns, static_cast<const T*>(inputs[I].data()) + first * columns...,
                            static_cast<T*>(call.output.data) + first * columns);
        });
  });
}
template <template <class> class Rows, std::size_t inputs>
void row_kernel(const KernelCall& call) {
  run_rows<Rows>(call, std::make_index_sequence<inputs>());
}
template <class T>
using Softmax = SoftmaxRows<T, false>;
template <class T>
using LogSoftmax = SoftmaxRows<T, true>;
template <class T>
using SoftmaxBackward = BackwardRows<T, false>;
template <class T>
using LogSoftmaxBackward = BackwardRows<T, true>;

void infer_rows(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  if (call.shape(0).rank() == 0) {
    call.fail_shape("needs at least one axis", "reshape the scalar to [1]");
  }
  output = call.input(0);
}

void infer_row_pair(const InferCall& call, TensorType& output) {
  infer_rows(call, output);
  if (call.input(1) != call.input(0)) {
    call.fail_shape("the cotangent and the result differ in type", "they have the type of the op's result");
  }
}

Tensor row_sum(const Tensor& x) { return sum(x, {-1}, true); }

std::vector<Sample> row_samples(std::size_t inputs, double low, double high) {
  std::vector<Sample> samples;
  const auto add_sample = [&](const SampleInput& in) { samples.push_back({std::vector(inputs, in), {}}); };
  for (DType dtype : kFloats) {
    add_sample(sample(dtype, {4, 10}, low, high));
    add_sample(sample(dtype, {2, 3, 33}, low, high));
    add_sample(transposed(sample(dtype, {4, 10}, low, high)));
    add_sample(sample(dtype, {0, 4}));
    add_sample(sample(dtype, {4, 0}));
  }
  return samples;
}
std::vector<Sample> softmax_samples() {
  std::vector<Sample> samples = row_samples(1, -2, 2);
  samples.push_back({{sample(DType::float32, {7}, -90, 90)}, {}});
  return samples;
}

const Op kSoftmax{
    row_op({.name = "softmax",
            .doc = "exp(x) / sum(exp(x)) along the last axis",
            .inputs = 1,
            .infer = infer_rows,
            .kernel = kernels::through_float<row_kernel<Softmax, 1>>,
            .rows = rows_of_last_axis<1>,
            .overwrites = 1,
            .vjp = [](const VjpCall& v) -> Gradients { return {softmax_backward(v.cotangent, v.output)}; },
            .saves = {.output = true},
            .jvp = [](const JvpCall& v) { return softmax_backward(v.tangent(0), v.output); },
            .flops = flops_per_element<20>,
            .samples = softmax_samples,
            .family = "normalisation"})};

const Op kLogSoftmax{
    row_op({.name = "log_softmax",
            .doc = "log(softmax(x)) along the last axis, without its overflow",
            .inputs = 1,
            .infer = infer_rows,
            .kernel = kernels::through_float<row_kernel<LogSoftmax, 1>>,
            .rows = rows_of_last_axis<1>,
            .vjp = [](const VjpCall& v) -> Gradients { return {log_softmax_backward(v.cotangent, v.output)}; },
            .saves = {.output = true},
            .jvp = [](const JvpCall& v) { return sub(v.tangent(0), row_sum(mul(exp(v.output), v.tangent(0)))); },
            .flops = flops_per_element<20>,
            .samples = softmax_samples,
            .family = "normalisation"})};

const Op kSoftmaxBackward{row_op({.name = "softmax_backward",
                                  .doc = "y * (dy - sum(dy * y)) along the last axis",
                                  .inputs = 2,
                                  .infer = infer_row_pair,
                                  .kernel = kernels::through_float<row_kernel<SoftmaxBackward, 2>>,
                                  .rows = rows_of_last_axis<3>,
                                  .overwrites = 3,
                                  .vjp = [](const VjpCall& v) -> Gradients {
                                    const Tensor& dy = v.input(0);
                                    const Tensor& y = v.input(1);
                                    Gradients gradients;
                                    if (v.needs(0)) {
                                      gradients[0] = softmax_backward(v.cotangent, y);
                                    }
                                    if (v.needs(1)) {
                                      gradients[1] = sub(mul(v.cotangent, sub(dy, row_sum(mul(dy, y)))),
                                                         mul(dy, row_sum(mul(v.cotangent, y))));
                                    }
                                    return gradients;
                                  },
                                  .saves = {.inputs = 3},
                                  .jvp = [](const JvpCall& v) -> Tensor {
                                    const Tensor& dy = v.input(0);
                                    const Tensor& y = v.input(1);
                                    Tensor tangent;
                                    if (v.tangent(0).defined()) {
                                      tangent = softmax_backward(v.tangent(0), y);
                                    }
                                    if (v.tangent(1).defined()) {
                                      const Tensor& t = v.tangent(1);
                                      const Tensor by_y =
                                          sub(mul(t, sub(dy, row_sum(mul(dy, y)))), mul(y, row_sum(mul(dy, t))));
                                      tangent = tangent.defined() ? add(tangent, by_y) : by_y;
                                    }
                                    return tangent;
                                  },
                                  .flops = flops_per_element<4>,
                                  .samples = [] { return row_samples(2, -1, 1); },
                                  .family = "normalisation"})};

const Op kLogSoftmaxBackward{row_op({.name = "log_softmax_backward",
                                     .doc = "dy - exp(y) * sum(dy) along the last axis",
                                     .inputs = 2,
                                     .infer = infer_row_pair,
                                     .kernel = kernels::through_float<row_kernel<LogSoftmaxBackward, 2>>,
                                     .rows = rows_of_last_axis<3>,
                                     .overwrites = 3,
                                     .vjp = [](const VjpCall& v) -> Gradients {
                                       const Tensor weighted = mul(v.cotangent, exp(v.input(1)));
                                       Gradients gradients;
                                       if (v.needs(0)) {
                                         gradients[0] = sub(v.cotangent, row_sum(weighted));
                                       }
                                       if (v.needs(1)) {
                                         gradients[1] = neg(mul(weighted, row_sum(v.input(0))));
                                       }
                                       return gradients;
                                     },
                                     .saves = {.inputs = 3},
                                     .jvp = [](const JvpCall& v) -> Tensor {
                                       Tensor tangent;
                                       if (v.tangent(0).defined()) {
                                         tangent = log_softmax_backward(v.tangent(0), v.input(1));
                                       }
                                       if (v.tangent(1).defined()) {
                                         const Tensor by_y =
                                             neg(mul(mul(v.tangent(1), exp(v.input(1))), row_sum(v.input(0))));
                                         tangent = tangent.defined() ? add(tangent, by_y) : by_y;
                                       }
                                       return tangent;
                                     },
                                     .flops = flops_per_element<20>,
                                     .samples = [] { return row_samples(2, -1, 1); },
                                     .family = "normalisation"})};

Tensor along_axis(const Op& op, const Tensor& x, int axis, Location where) {
  if (x.rank() == 0) {
    return apply_op(op, nullptr, where, x);  // refused by the op
  }
  const int normal = normalise_axis(axis, x.rank(), op->name, where);
  if (normal == x.rank() - 1) {
    return apply_op(op, nullptr, where, x);
  }
  return transpose(apply_op(op, nullptr, where, transpose(x, normal, -1, where)), normal, -1, where);
}

}  // namespace

namespace op {
const OpDef& softmax = *kSoftmax;
const OpDef& log_softmax = *kLogSoftmax;
const OpDef& softmax_backward = *kSoftmaxBackward;
const OpDef& log_softmax_backward = *kLogSoftmaxBackward;
}  // namespace op

Tensor softmax(const Tensor& x, int axis, Location where) { return along_axis(kSoftmax, x, axis, where); }
Tensor log_softmax(const Tensor& x, int axis, Location where) { return along_axis(kLogSoftmax, x, axis, where); }
Tensor softmax_backward(const Tensor& dy, const Tensor& y, Location where) {
  return apply_op(kSoftmaxBackward, nullptr, where, dy, y);
}
Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, Location where) {
  return apply_op(kLogSoftmaxBackward, nullptr, where, dy, y);
}

}  // namespace diptych
