// Cross entropy with labels, one row at a time: neither the probabilities nor the one-hot labels are ever in memory.
// The gradient is one pass too: (softmax(logits) - target) * cotangent.

#include "framework/ops/cross_entropy.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "framework/core/parallel.h"
#include "framework/kernels/dense.h"
#include "framework/kernels/softmax_row.h"
#include "framework/kernels/vector_length.h"
#include "framework/kernels/wide_float.h"
#include "framework/ops/creation.h"
#include "framework/ops/index.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;
using kernels::SumCombine;

void check_rows(const InferCall& call) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  check_indices(call, 1);
  if (call.shape(0).rank() != 2 || call.shape(1).rank() != 1 || call.shape(0)[0] != call.shape(1)[0]) {
    call.fail_shape("logits and labels don't fit", "give logits of [N, classes] and labels of i64[N]");
  }
  const double smoothing = call.as<CrossEntropyAttributes>().label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) {
    call.fail_shape(fmt::format("the label smoothing {} is outside [0, 1]", smoothing), "0 means none");
  }
}

bool is_class(std::int64_t label, std::int64_t classes) { return label >= 0 && label < classes; }

/// Throws, in the name of `op`, for the first label that is neither a class nor the ignored one.
void check_labels(const char* op, const std::int64_t* labels, std::int64_t count, std::int64_t classes,
                  std::int64_t ignored) {
  for (std::int64_t row = 0; row < count; ++row) {
    if (!is_class(labels[row], classes) && labels[row] != ignored) {
      fail_index(op, labels[row], row, classes);
    }
  }
}

/// The dense logits of a call, and its labels.
struct LogitRows {
  kernels::Dense logits, labels;
  std::int64_t count, classes;

  LogitRows(const KernelCall& call, bool checks)
      : logits(call.inputs[0]),
        labels(call.inputs[1]),
        count(call.inputs[0].type->shape[0]),
        classes(call.inputs[0].type->shape[1]) {
    if (checks) {
      check_labels(call.op->name, label_data(), count, classes,
                   static_cast<const CrossEntropyAttributes*>(call.attributes)->ignore_index);
    }
  }
  /// Of a row on one thread, roughly.
  double nanoseconds() const { return 0.5 * static_cast<double>(classes); }
  const std::int64_t* label_data() const { return static_cast<const std::int64_t*>(labels.data()); }
};

template <class T>
struct LossRows {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t classes, const T* logits, const std::int64_t* labels,
                                   const CrossEntropyAttributes* attributes, T* out) {
      const T smoothing = static_cast<T>(attributes->label_smoothing);
      for (std::int64_t row = 0; row < rows; ++row, logits += classes) {
        if (labels[row] == attributes->ignore_index) {
          out[row] = T(0);
          continue;
        }
        if (!is_class(labels[row], classes)) [[unlikely]] {  // not checked before, as class_labels does
          out[row] = std::numeric_limits<T>::quiet_NaN();
          continue;
        }
        const T largest = kernels::largest_for_shift<bytes>(classes, logits);
        const T total = kernels::detail::reduce<SumCombine, T>(
            classes, [=](std::int64_t i) { return math::exp_nonpositive(logits[i] - largest); });
        T chosen = logits[labels[row]] - largest;
        if (smoothing != T(0)) {
          const T sum =
              kernels::detail::reduce<SumCombine, T>(classes, [=](std::int64_t i) { return logits[i] - largest; });
          chosen = (T(1) - smoothing) * chosen + smoothing * (sum / static_cast<T>(classes));
        }
        out[row] = math::log(total) - chosen;
      }
    }
  };
};

template <class T>
struct GradientRows {
  template <int bytes>
  struct Of {
    DIPTYCH_INLINE static void run(std::int64_t rows, std::int64_t classes, const T* logits, const std::int64_t* labels,
                                   const CrossEntropyAttributes* attributes, const T* scale, T* out) {
      const T smoothing = static_cast<T>(attributes->label_smoothing);
      const T spread = smoothing / static_cast<T>(classes);
      for (std::int64_t row = 0; row < rows; ++row, logits += classes, out += classes) {
        if (labels[row] == attributes->ignore_index || !is_class(labels[row], classes)) {
          std::fill_n(out, classes,
                      labels[row] == attributes->ignore_index ? T(0) : std::numeric_limits<T>::quiet_NaN());
          continue;
        }
        const T largest = kernels::largest_for_shift<bytes>(classes, logits);
        const T total = kernels::exponentials(classes, logits, T(1), largest, out);
        const T factor = scale[row];
        const T label_probability = out[labels[row]] / total;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < classes; ++i) {
          out[i] = (out[i] / total - spread) * factor;
        }
        out[labels[row]] = ((label_probability - spread) - (T(1) - smoothing)) * factor;
      }
    }
  };
};

template <bool checks>
void loss_kernel(const KernelCall& call) {
  const LogitRows rows(call, checks);
  const auto* attributes = static_cast<const CrossEntropyAttributes*>(call.attributes);
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    parallel_for(rows.count, rows.nanoseconds(), [&](std::int64_t first, std::int64_t last) {
      kernels::active_of<LossRows<T>::template Of>()(
          last - first, rows.classes, static_cast<const T*>(rows.logits.data()) + first * rows.classes,
          rows.label_data() + first, attributes, static_cast<T*>(call.output.data) + first);
    });
  });
}

template <bool checks>
void gradient_kernel(const KernelCall& call) {
  const LogitRows rows(call, checks);
  const kernels::Dense scale(call.inputs[2]);
  const auto* attributes = static_cast<const CrossEntropyAttributes*>(call.attributes);
  kernels::visit_wide_float(call.output.type->dtype, [&]<class T>() {
    parallel_for(rows.count, rows.nanoseconds(), [&](std::int64_t first, std::int64_t last) {
      kernels::active_of<GradientRows<T>::template Of>()(
          last - first, rows.classes, static_cast<const T*>(rows.logits.data()) + first * rows.classes,
          rows.label_data() + first, attributes, static_cast<const T*>(scale.data()) + first,
          static_cast<T*>(call.output.data) + first * rows.classes);
    });
  });
}

/// (softmax(logits) - target) * scale, one row at a time; scale: [N]
Tensor gradient_rows(const Tensor& logits, const Tensor& labels, const Tensor& scale,
                     const CrossEntropyAttributes& attributes);
Tensor unscaled_gradient(const Tensor& logits, const Tensor& labels, const CrossEntropyAttributes& attributes) {
  return gradient_rows(logits, labels, expand(full_like(logits, 1.0, Shape{}), labels.shape()), attributes);
}

std::vector<Sample> cross_entropy_samples(bool with_scale) {
  std::vector<Sample> samples;
  const auto add_sample = [&](SampleInput logits, const CrossEntropyAttributes& attributes) {
    const Shape shape = logits.type.shape;
    const DType dtype = logits.type.dtype;
    std::vector<SampleInput> inputs{std::move(logits),
                                    sample(DType::int64, {shape[0]}, 0, static_cast<double>(shape[1]))};
    if (with_scale) {
      inputs.push_back(sample(dtype, {shape[0]}));
    }
    samples.push_back(with(std::move(inputs), attributes));
  };
  for (DType dtype : kFloats) {
    add_sample(sample(dtype, {6, 10}), {});
    add_sample(sample(dtype, {5, 33}), {0.1, 2});
    add_sample(transposed(sample(dtype, {7, 4})), {0, 1});
    add_sample(sample(dtype, {0, 4}), {});
  }
  return samples;
}

/// `checks`: the labels, and throws; otherwise they have been checked (class_labels), and a wrong one gives NaN.
template <bool checks>
OpDef define_loss(const char* name, const char* doc) {
  return row_op(
      {.name = name,
       .doc = doc,
       .inputs = 2,
       .attributes = &attribute_type<CrossEntropyAttributes>,
       .infer =
           [](const InferCall& call, TensorType& output) {
             check_rows(call);
             output.dtype = call.input(0).dtype;
             output.shape = call.shape(1);
           },
       .kernel = kernels::through_float<loss_kernel<checks>>,
       .rows = checks ? nullptr : rows_of_last_axis<3>,
       .vjp = [](const VjpCall& v) -> Gradients {
         return {gradient_rows(v.input(0), v.input(1), v.cotangent, v.as<CrossEntropyAttributes>())};
       },
       .saves = {.inputs = 3},
       .jvp = [](const JvpCall& v) -> Tensor {
         return sum(mul(unscaled_gradient(v.input(0), v.input(1), v.as<CrossEntropyAttributes>()), v.tangent(0)), {1});
       },
       .can_fail = checks,
       .flops = [](const InferCall& call,
                   const TensorType&) { return 20.0 * static_cast<double>(call.shape(0).product()); },
       .samples = [] { return cross_entropy_samples(false); },
       .family = "loss"});
}

const Op kCrossEntropy{define_loss<true>("cross_entropy", "-log softmax(logits)[label] of every row")};
const Op kCrossEntropyOfClasses{
    define_loss<false>("cross_entropy_of_classes", "cross_entropy of labels that class_labels has checked")};

/// The scaled softmax_backward of u; 0 in rows whose label is ignored.
Tensor through_softmax(const Tensor& logits, const Tensor& labels, const Tensor& scale, const Tensor& u,
                       const CrossEntropyAttributes& attributes) {
  Tensor counted = scale;
  if (attributes.ignore_index != kIgnoreNothing) {
    const Tensor ignored = equal(labels, full(Shape{}, static_cast<double>(attributes.ignore_index), DType::int64));
    counted = where(ignored, full_like(scale, 0.0, Shape{}), scale);
  }
  return softmax_backward(mul(u, unsqueeze(counted, 1)), softmax(logits));
}

template <bool checks>
OpDef define_gradient(const char* name, const char* doc) {
  return row_op({.name = name,
                 .doc = doc,
                 .inputs = 3,
                 .attributes = &attribute_type<CrossEntropyAttributes>,
                 .infer =
                     [](const InferCall& call, TensorType& output) {
                       check_rows(call);
                       if (call.input(2) != TensorType{call.input(0).dtype, call.shape(1)}) {
                         call.fail_shape("the scale doesn't fit",
                                         "it has the logits' element type and the labels' shape");
                       }
                       output = call.input(0);
                     },
                 .kernel = kernels::through_float<gradient_kernel<checks>>,
                 .rows = checks ? nullptr : rows_of_last_axis<7>,
                 .vjp = [](const VjpCall& v) -> Gradients {
                   const auto& attributes = v.as<CrossEntropyAttributes>();
                   Gradients gradients;
                   if (v.needs(0)) {
                     gradients[0] = through_softmax(v.input(0), v.input(1), v.input(2), v.cotangent, attributes);
                   }
                   if (v.needs(2)) {
                     gradients[2] = sum(mul(v.cotangent, unscaled_gradient(v.input(0), v.input(1), attributes)), {1});
                   }
                   return gradients;
                 },
                 .saves = {.inputs = 7},
                 .jvp = [](const JvpCall& v) -> Tensor {
                   const auto& attributes = v.as<CrossEntropyAttributes>();
                   Tensor tangent;
                   if (v.tangent(0).defined()) {
                     tangent = through_softmax(v.input(0), v.input(1), v.input(2), v.tangent(0), attributes);
                   }
                   if (v.tangent(2).defined()) {
                     const Tensor by_scale = gradient_rows(v.input(0), v.input(1), v.tangent(2), attributes);
                     tangent = tangent.defined() ? add(tangent, by_scale) : by_scale;
                   }
                   return tangent;
                 },
                 .can_fail = checks,
                 .flops = flops_per_element<20>,
                 .samples = [] { return cross_entropy_samples(true); },
                 .family = "loss"});
}

const Op kCrossEntropyBackward{
    define_gradient<true>("cross_entropy_backward", "(softmax(logits) - target) * scale of every row")};
const Op kCrossEntropyBackwardOfClasses{define_gradient<false>(
    "cross_entropy_backward_of_classes", "cross_entropy_backward of labels that class_labels has checked")};

void class_labels_kernel(const KernelCall& call) {
  const kernels::Dense labels(call.inputs[0]);
  const auto* in = static_cast<const std::int64_t*>(labels.data());
  const auto& a = *static_cast<const ClassLabelsAttributes*>(call.attributes);
  const std::int64_t count = call.output.type->shape.product();
  check_labels(a.op.c_str(), in, count, a.classes, a.ignore_index);
  std::copy_n(in, count, static_cast<std::int64_t*>(call.output.data));
}

const Op kClassLabels{
    {.name = "class_labels",
     .doc = "the labels, each of which is a class or `ignore_index`, or an error of `op`",
     .inputs = 1,
     .attributes = &attribute_type<ClassLabelsAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           check_indices(call, 0);
           output = call.input(0);
         },
     .kernel = class_labels_kernel,
     .can_fail = true,
     .samples =
         [] {
           return std::vector<Sample>{
               with({sample(DType::int64, {6}, 0, 10)},
                    ClassLabelsAttributes{10, kIgnoreNothing, InternedText("cross_entropy")}),
               with({sample(DType::int64, {0}, 0, 10)}, ClassLabelsAttributes{10, -1, InternedText("cross_entropy")})};
         },
     .family = "loss"}};

Tensor gradient_rows(const Tensor& logits, const Tensor& labels, const Tensor& scale,
                     const CrossEntropyAttributes& attributes) {
  return apply_op(kCrossEntropyBackward, &attributes, Location::current(), logits, labels, scale);
}

}  // namespace

namespace op {
const OpDef& cross_entropy = *kCrossEntropy;
const OpDef& cross_entropy_backward = *kCrossEntropyBackward;
const OpDef& cross_entropy_of_classes = *kCrossEntropyOfClasses;
const OpDef& cross_entropy_backward_of_classes = *kCrossEntropyBackwardOfClasses;
const OpDef& class_labels = *kClassLabels;
}  // namespace op

Tensor ops::cross_entropy_rows(const Tensor& logits, const Tensor& labels, double label_smoothing,
                               std::int64_t ignore_index, Location where) {
  const CrossEntropyAttributes attributes{label_smoothing, ignore_index};
  return apply_op(kCrossEntropy, &attributes, where, logits, labels);
}

}  // namespace diptych
