#include "framework/ops/softmax.h"

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

void infer_rows(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  if (call.shape(0).rank() == 0) {
    call.fail_shape("needs at least one axis", "");
  }
  output = call.input(0);
}

struct RowMax {
  template <class T>
  DIPTYCH_INLINE static T identity() {
    return -std::numeric_limits<T>::infinity();
  }
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b) {
    return math::maximum(a, b);
  }
};

template <class T, bool logarithm>
struct SoftmaxRows {
  DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t columns, const T* in, T* out) {
    for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
      const T largest = kernels::reduce_dense<RowMax>(in, columns);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < columns; ++i) {
        out[i] = math::exp(in[i] - largest);
      }
      const T total = kernels::reduce_dense<kernels::SumCombine>(static_cast<const T*>(out), columns);
      if constexpr (logarithm) {
        const T shift = math::log(total);
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          out[i] = (in[i] - largest) - shift;
        }
      } else {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < columns; ++i) {
          out[i] = out[i] / total;
        }
      }
    }
  }
};

template <bool logarithm>
void softmax_kernel(const KernelCall& call) {
  const Shape& shape = call.output.type->shape;
  const std::int64_t columns = shape.back();
  const std::int64_t rows = columns == 0 ? 0 : shape.product() / columns;
  const kernels::Dense input(call.inputs[0]);
  if (call.output.type->dtype == DType::float32) {
    PerIsa<SoftmaxRows<float, logarithm>>::active()(rows, columns, static_cast<const float*>(input.data()),
                                                    static_cast<float*>(call.output.data));
  } else {
    PerIsa<SoftmaxRows<double, logarithm>>::active()(rows, columns, static_cast<const double*>(input.data()),
                                                     static_cast<double*>(call.output.data));
  }
}

std::vector<Sample> row_samples() {
  std::vector<Sample> samples;
  for (DType dtype : kFloats) {
    samples.push_back({{sample(dtype, {4, 10})}, {}});
    samples.push_back({{sample(dtype, {2, 3, 33})}, {}});
    samples.push_back({{transposed(sample(dtype, {4, 10}))}, {}});
    samples.push_back({{sample(dtype, {7}, -90, 90)}, {}});
    samples.push_back({{sample(dtype, {0, 4})}, {}});
  }
  return samples;
}

const Op kSoftmax{{.name = "softmax",
                   .doc = "exp(x) / sum(exp(x)) along the last axis",
                   .inputs = 1,
                   .infer = infer_rows,
                   .kernel = kernels::through_float<softmax_kernel<false>>,
                   .vjp = [](const VjpCall& v) -> Gradients {
                     const Tensor weighted = mul(v.cotangent, v.output);
                     return {sub(weighted, mul(v.output, sum(weighted, {-1}, true)))};
                   },
                   .saves = {.output = true},
                   .flops = flops_per_element<20>,
                   .samples = row_samples,
                   .family = "normalisation"}};

const Op kLogSoftmax{{.name = "log_softmax",
                      .doc = "log(softmax(x)) along the last axis, without its overflow",
                      .inputs = 1,
                      .infer = infer_rows,
                      .kernel = kernels::through_float<softmax_kernel<true>>,
                      .vjp = [](const VjpCall& v) -> Gradients {
                        return {sub(v.cotangent, mul(exp(v.output), sum(v.cotangent, {-1}, true)))};
                      },
                      .saves = {.output = true},
                      .flops = flops_per_element<20>,
                      .samples = row_samples,
                      .family = "normalisation"}};

struct OneHotAttributes {
  std::int64_t depth = 1;
  DType dtype = DType::float32;
  static constexpr auto fields() {
    return std::tuple(field("depth", &OneHotAttributes::depth), field("dtype", &OneHotAttributes::dtype));
  }
};

void one_hot_kernel(const KernelCall& call) {
  const std::int64_t depth = static_cast<const OneHotAttributes*>(call.attributes)->depth;
  const kernels::Dense input(call.inputs[0]);
  const auto* indices = static_cast<const std::int64_t*>(input.data());
  const std::int64_t count = call.inputs[0].type->shape.product();
  visit(call.output.type->dtype, [&]<class T>() {
    T* out = static_cast<T*>(call.output.data);
    std::fill_n(out, count * depth, T(0));
    for (std::int64_t i = 0; i < count; ++i) {
      if (indices[i] < 0 || indices[i] >= depth) {
        throw Error(
            fmt::format("one_hot: index {} at position {} is outside [0, {}); check the labels", indices[i], i, depth));
      }
      out[i * depth + indices[i]] = T(1);
    }
  });
}

const Op kOneHot{{.name = "one_hot",
                  .doc = "A row with a single 1 for each index",
                  .inputs = 1,
                  .attributes = &attribute_type<OneHotAttributes>,
                  .infer =
                      [](const InferCall& call, TensorType& output) {
                        const auto& attributes = call.as<OneHotAttributes>();
                        if (call.input(0).dtype != DType::int64) {
                          call.fail_dtype("the indices are not i64", "cast them");
                        }
                        if (attributes.depth < 1) {
                          call.fail_shape("the depth is below 1", "");
                        }
                        output.dtype = attributes.dtype;
                        output.shape = call.shape(0);
                        output.shape.push_back(attributes.depth);
                      },
                  .kernel = one_hot_kernel,
                  .can_fail = true,
                  .samples =
                      [] {
                        const OneHotAttributes attributes{5, DType::float32};
                        const AttributeValue value(&attribute_type<OneHotAttributes>, &attributes);
                        return std::vector<Sample>{{{sample(DType::int64, {7}, 0, 5)}, value},
                                                   {{sample(DType::int64, {2, 3}, 0, 5)}, value}};
                      }}};

Tensor along_axis(const Op& op, const Tensor& x, int axis, Location where) {
  const int normal = normalise_axis(axis, x.rank(), op->name, where);
  if (normal == x.rank() - 1) {
    return apply_op(op, nullptr, where, x);
  }
  return transpose(apply_op(op, nullptr, where, transpose(x, normal, -1, where)), normal, -1, where);
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, Location where) { return along_axis(kSoftmax, x, axis, where); }
Tensor log_softmax(const Tensor& x, int axis, Location where) { return along_axis(kLogSoftmax, x, axis, where); }

Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype, Location where) {
  const OneHotAttributes attributes{depth, dtype};
  return apply_op(kOneHot, &attributes, where, indices);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Location where) {
  if (logits.rank() != 2 || labels.rank() != 1 || logits.shape()[0] != labels.shape()[0]) {
    throw ShapeError(fmt::format("cross_entropy: logits {} and labels {} don't fit", to_string(logits.type()),
                                 to_string(labels.type())),
                     where, "give logits of [N, classes] and labels of i64[N]");
  }
  const Tensor chosen =
      mul(log_softmax(logits, -1, where), one_hot(labels, logits.shape()[1], logits.dtype(), where), where);
  return neg(mean(sum(chosen, {1}, false, where), {}, false, where), where);
}

}  // namespace diptych
