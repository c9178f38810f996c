#include "framework/ops/loss.h"

#include <cmath>

#include <fmt/format.h>

#include "framework/ops/creation.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/index.h"
#include "framework/ops/indexing.h"
#include "framework/ops/reduction.h"
#include "framework/ops/row_ops.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

Tensor reduced(const Tensor& losses, Reduction reduction, Location where) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::sum:
      return sum(losses, {}, false, where);
    default:
      return mean(losses, {}, false, where);
  }
}

/// Scores and labels reshaped to [N, C] and [N], whatever their number of axes was.
struct LabelledRows {
  Tensor scores, labels;

  LabelledRows(const Tensor& x, const Tensor& given, const char* name, Location where) : scores(x), labels(given) {
    Shape expected;
    const int class_axis = x.rank() > 1 ? 1 : 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (axis != class_axis) {
        expected.push_back(x.shape()[axis]);
      }
    }
    if (x.rank() == 0 || given.shape() != expected || is_floating(given.dtype())) {
      throw ShapeError(
          fmt::format("{}: logits {} and labels {} don't fit", name, to_string(x.type()), to_string(given.type())),
          where, "give logits of [N, classes, ...] and labels of i64[N, ...]");
    }
    labels = as_indices(given, where);
    if (x.rank() == 2) {
      return;
    }
    const std::int64_t classes = x.shape()[class_axis];
    scores = reshape(transpose_to_end(x, class_axis, where), {expected.product(), classes}, where);
    labels = reshape(labels, {expected.product()}, where);
  }

 private:
  static Tensor transpose_to_end(const Tensor& x, int axis, Location where) {
    Axes order;
    for (int i = 0; i < x.rank(); ++i) {
      if (i != axis) {
        order.push_back(i);
      }
    }
    order.push_back(axis);
    return permute(x, order, where);
  }
};

/// The weight of each row: that of its label, or 0 if the row is ignored. Undefined: 1 each.
struct RowWeights {
  Tensor weights;
  Tensor ignored;      ///< bool; undefined: none
  Tensor safe_labels;  ///< labels with the ignored ones replaced by class 0

  RowWeights(const Tensor& labels, const Tensor& class_weights, std::optional<std::int64_t> ignore, DType dtype,
             Location location)
      : safe_labels(labels) {
    Tensor counted;
    if (ignore) {
      ignored = equal(labels, full(Shape{}, static_cast<double>(*ignore), DType::int64, location), location);
      safe_labels = masked_fill(labels, ignored, 0, location);
      counted = cast(logical_not(ignored, location), dtype, location);
    }
    if (class_weights.defined()) {
      weights = index_select(cast(class_weights, dtype, location), 0, safe_labels, location);
    }
    if (counted.defined()) {
      weights = weights.defined() ? mul(weights, counted, location) : counted;
    }
  }
};

/// The mean is weighted by the rows' weights.
Tensor reduced_rows(const Tensor& losses, const Tensor& weights, Reduction reduction, const Shape& shape,
                    Location where) {
  if (reduction == Reduction::none) {
    return losses.shape() == shape ? losses : reshape(losses, shape, where);
  }
  if (reduction == Reduction::mean && weights.defined()) {
    return div(sum(losses, {}, false, where), sum(weights, {}, false, where), where);
  }
  return reduced(losses, reduction, where);
}

void check_class_weights(const Tensor& weight, std::int64_t classes, const char* name, Location where) {
  if (weight.defined() && weight.shape() != Shape{classes}) {
    throw ShapeError(
        fmt::format("{}: the weights are {}, and there are {} classes", name, to_string(weight.type()), classes), where,
        "give one weight a class");
  }
}

/// -log_probabilities[label] * weight of every row of [N, C].
Tensor negative_log_likelihood(const Tensor& log_probabilities, const RowWeights& rows, Location where) {
  const Tensor chosen = squeeze(gather(log_probabilities, 1, unsqueeze(rows.safe_labels, 1, where), where), 1, where);
  if (!rows.weights.defined()) {
    return neg(chosen, where);
  }
  // Multiplying alone isn't enough: an ignored row may hold an infinity.
  const Tensor zero = full_like(chosen, 0.0, Shape{}, where);
  const Tensor counts = not_equal(rows.weights, zero, where);
  return neg(mul(rows.weights, diptych::where(counts, chosen, zero, where), where), where);
}

Tensor weighted_cross_entropy(const LabelledRows& rows, const CrossEntropyOptions& options, const Shape& shape,
                              Location where) {
  const Tensor log_probabilities = log_softmax(rows.scores, 1, where);
  const RowWeights weights(rows.labels, options.weight, options.ignore_index, rows.scores.dtype(), where);
  Tensor losses = negative_log_likelihood(log_probabilities, weights, where);
  if (options.label_smoothing > 0) {
    const double spread = options.label_smoothing / static_cast<double>(rows.scores.shape()[1]);
    const Tensor all =
        sum(mul(log_probabilities, cast(options.weight, rows.scores.dtype(), where), where), {1}, false, where);
    const Tensor counted = weights.ignored.defined() ? masked_fill(all, weights.ignored, 0, where) : all;
    losses = sub(mul(losses, full_like(losses, 1 - options.label_smoothing, Shape{}, where), where),
                 mul(counted, full_like(losses, spread, Shape{}, where), where), where);
  }
  return reduced_rows(losses, weights.weights, options.reduction, shape, where);
}

Tensor cross_entropy_of_probabilities(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options,
                                      Location where) {
  if (options.ignore_index) {
    throw ShapeError("cross_entropy: probabilities have no label to ignore", where,
                     "give labels, or leave ignore_index out");
  }
  const int class_axis = logits.rank() > 1 ? 1 : 0;
  const std::int64_t classes = logits.shape()[class_axis];
  Tensor target = cast(labels, logits.dtype(), where);
  if (options.label_smoothing > 0) {
    target = add(mul(target, full_like(target, 1 - options.label_smoothing, Shape{}, where), where),
                 full_like(target, options.label_smoothing / static_cast<double>(classes), Shape{}, where), where);
  }
  if (options.weight.defined()) {
    Shape along = Shape::filled(logits.rank(), 1);
    along[class_axis] = classes;
    target = mul(target, reshape(cast(options.weight, logits.dtype(), where), along, where), where);
  }
  const Tensor losses =
      neg(sum(mul(log_softmax(logits, class_axis, where), target, where), {class_axis}, false, where), where);
  return reduced(losses, options.reduction, where);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options, Location where) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw ShapeError(fmt::format("cross_entropy: the label smoothing {} is outside [0, 1]", options.label_smoothing),
                     where, "0 means none");
  }
  if (logits.rank() > 0) {
    check_class_weights(options.weight, logits.shape()[logits.rank() > 1 ? 1 : 0], "cross_entropy", where);
  }
  if (logits.rank() > 0 && is_floating(labels.dtype()) && labels.shape() == logits.shape()) {
    return cross_entropy_of_probabilities(logits, labels, options, where);
  }
  const LabelledRows rows(logits, labels, "cross_entropy", where);
  if (options.weight.defined()) {
    return weighted_cross_entropy(rows, options, labels.shape(), where);
  }
  const Tensor losses = cross_entropy_rows(rows.scores, rows.labels, options.label_smoothing,
                                           options.ignore_index.value_or(kIgnoreNothing), where);
  Tensor counted;
  if (options.ignore_index && options.reduction == Reduction::mean) {
    counted = RowWeights(rows.labels, Tensor(), options.ignore_index, rows.scores.dtype(), where).weights;
  }
  return reduced_rows(losses, counted, options.reduction, labels.shape(), where);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options, Location where) {
  const LabelledRows rows(log_probabilities, labels, "nll_loss", where);
  check_class_weights(options.weight, rows.scores.shape()[1], "nll_loss", where);
  const RowWeights weights(rows.labels, options.weight, options.ignore_index, rows.scores.dtype(), where);
  return reduced_rows(negative_log_likelihood(rows.scores, weights, where), weights.weights, options.reduction,
                      labels.shape(), where);
}

namespace {

/// log(1 + e^-|x|). e is at most 1, and what 1 + e loses of it by rounding is compensated to first order.
template <class T>
DIPTYCH_INLINE T softplus_tail(T x) {
  const T e = math::exp(-math::abs(x));
  const T u = T(1) + e;
  return math::log(u) + (e - (u - T(1))) / u;
}

struct BceWithLogits {
  template <class T>
  DIPTYCH_INLINE static T apply(T x, T target) {
    const T slope = (x > T(0) ? T(1) : T(0)) - target;
    return x * slope + softplus_tail(x);  // a NaN propagates through the tail
  }
};
const Op kBceWithLogits{elementwise_op<BceWithLogits, Domain::floating, 2>(
    {.name = "bce_with_logits",
     .doc = "Binary cross entropy of sigmoid(x) and a target",
     .vjp = [](const VjpCall& v) -> Gradients {
       return {v.needs(0) ? mul(v.cotangent, sub(sigmoid(v.input(0)), v.input(1))) : Tensor(),
               v.needs(1) ? neg(mul(v.cotangent, v.input(0))) : Tensor()};
     },
     .saves = {.inputs = 3},
     .flops = flops_per_element<40>,
     .samples = [] { return binary_samples(kFloats, -3, 3); },
     .family = "loss"})};

struct Huber {
  template <class T>
  DIPTYCH_INLINE static T apply(const HuberAttributes& attributes, T x, T target) {
    const T delta = static_cast<T>(attributes.delta);
    const T distance = math::abs(x - target);
    const T near = T(0.5) * distance * distance;
    const T far = delta * (distance - T(0.5) * delta);
    return distance > delta ? far : near;  // NaN takes the near branch
  }
};
const Op kHuber{elementwise_op({.name = "huber_loss",
                                .doc = "d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2)",
                                .inputs = 2,
                                .attributes = &attribute_type<HuberAttributes>,
                                .infer =
                                    [](const InferCall& call, TensorType& output) {
                                      infer_binary<Domain::floating>(call, output);
                                      const double delta = call.as<HuberAttributes>().delta;
                                      if (!(delta > 0) || std::isinf(delta)) {
                                        call.fail_shape(fmt::format("delta is {}", delta), "it is positive and finite");
                                      }
                                    },
                                .loops = loops<Huber, Domain::floating, 2, HuberAttributes>(),
                                .vjp = [](const VjpCall& v) -> Gradients {
                                  const double delta = v.as<HuberAttributes>().delta;
                                  const Tensor distance = sub(v.input(0), v.input(1));
                                  const Tensor slope = minimum(maximum(distance, full_like(distance, -delta, Shape{})),
                                                               full_like(distance, delta, Shape{}));
                                  const Tensor gradient = mul(v.cotangent, slope);
                                  return {gradient, v.needs(1) ? neg(gradient) : Tensor()};
                                },
                                .saves = {.inputs = 3},
                                .flops = flops_per_element<6>,
                                .samples =
                                    [] {
                                      std::vector<Sample> samples;
                                      for (Sample& one : binary_samples(kFloats, -2, 2)) {
                                        samples.push_back(with(std::move(one.inputs), HuberAttributes{0.7}));
                                      }
                                      return samples;
                                    },
                                .family = "loss"})};

/// Both in their common type; throws unless they have one shape.
std::pair<Tensor, Tensor> matched(const Tensor& input, const Tensor& target, const char* name, Location where) {
  if (input.shape() != target.shape()) {
    throw ShapeError(fmt::format("{}: shapes differ: {} x {}", name, to_string(input.type()), to_string(target.type())),
                     where, "broadcasting here is nearly always a mistake; expand one of them if you mean it");
  }
  const DType common = promote(input.dtype(), target.dtype());
  const DType dtype = is_floating(common) ? common : DType::float32;
  return {cast(input, dtype, where), cast(target, dtype, where)};
}

}  // namespace

namespace op {
const OpDef& bce_with_logits = *kBceWithLogits;
const OpDef& huber_loss = *kHuber;
}  // namespace op

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction, Location where) {
  const auto [x, y] = matched(input, target, "mse_loss", where);
  return reduced(square(sub(x, y, where), where), reduction, where);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, Location where) {
  const auto [x, y] = matched(input, target, "l1_loss", where);
  return reduced(abs(sub(x, y, where), where), reduction, where);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, double delta, Reduction reduction, Location where) {
  const auto [x, y] = matched(input, target, "huber_loss", where);
  const HuberAttributes attributes{delta};
  return reduced(apply_op(kHuber, &attributes, where, x, y), reduction, where);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta, Reduction reduction, Location where) {
  if (beta == 0) {
    return l1_loss(input, target, reduction, where);
  }
  const Tensor losses = huber_loss(input, target, beta, reduction, where);
  return div(losses, full_like(losses, beta, Shape{}, where), where);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceOptions& options, Location where) {
  const auto [x, t] = matched(logits, targets, "bce_with_logits", where);
  Tensor losses = apply_op(kBceWithLogits, nullptr, where, x, t);
  if (options.pos_weight.defined()) {
    // bce(x, t) = t softplus(-x) + (1 - t) softplus(x). The weight adds (weight - 1) t softplus(-x), and softplus(-x)
    // is bce(x, 1).
    const Tensor extra = sub(cast(options.pos_weight, x.dtype(), where), full_like(x, 1.0, Shape{}, where), where);
    const Tensor positive = apply_op(kBceWithLogits, nullptr, where, x, full_like(x, 1.0, Shape{}, where));
    losses = add(losses, mul(mul(extra, t, where), positive, where), where);
  }
  if (options.weight.defined()) {
    losses = mul(losses, cast(options.weight, x.dtype(), where), where);
  }
  return reduced(losses, options.reduction, where);
}

}  // namespace diptych
