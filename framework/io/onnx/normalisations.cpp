// Normalisations: over the batch, a layer, instances, groups, neighbouring channels, p-norms.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalisation.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// [C] in a shape that broadcasts with x[N, C, ...].
Tensor per_channel(const Tensor& t, const Tensor& x, Location where) {
  Shape shape = Shape::filled(std::max(x.rank() - 1, 1), 1);
  shape[0] = t.numel();
  return reshape(t, shape, where);
}

/// In the same form as the engine's own batch_norm, so that both give the same bits.
Translation batch_normalisation(NodeView& node) {
  const double eps = node.real("epsilon", 1e-5);
  const double momentum = node.real("momentum", 0.9);
  // Said by an attribute, or by the statistics that only training gives.
  const bool gives_statistics =
      node.wants_output(1) || node.wants_output(2) || node.wants_output(3) || node.wants_output(4);
  const bool trains = node.opset() >= 14  ? node.integer("training_mode", 0) != 0
                      : node.opset() >= 7 ? gives_statistics
                                          : node.integer("is_test", 0) == 0;
  if (node.opset() < 9 && node.integer("spatial", 1) != 1) {
    node.refuse("it normalises each place by itself (spatial is 0)");
  }
  if (!trains && gives_statistics) {
    node.refuse("it gives running statistics in inference");
  }
  node.check_inputs(5, 5);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    if (x.rank() < 2) {
      throw ShapeError(fmt::format("{} has no channels", to_string(x.type())));
    }
    Tensor mean = in[3].tensor;
    Tensor variance = in[4].tensor;
    if (trains) {
      Axes axes{0};
      for (int axis = 2; axis < x.rank(); ++axis) {
        axes.push_back(axis);
      }
      const Tensor batch_mean = diptych::mean(x, axes, false, where);
      const Tensor batch_variance = var(x, axes, 0, false, where);
      const auto moved = [&](const Tensor& running, const Tensor& now) {
        const Tensor wide = cast(now, running.dtype(), where);
        return add(mul(running, scalar_like(running, momentum, where), where),
                   mul(wide, scalar_like(wide, 1 - momentum, where), where), where);
      };
      if (out.size() > 1) {
        out[1].tensor = moved(mean, batch_mean);
      }
      if (out.size() > 2) {
        out[2].tensor = moved(variance, batch_variance);
      }
      if (out.size() > 3) {
        out[3].tensor = batch_mean;
      }
      if (out.size() > 4) {
        out[4].tensor = batch_variance;
      }
      mean = batch_mean;
      variance = batch_variance;
    }
    const Tensor root = sqrt(add(variance, scalar_like(variance, eps, where), where), where);
    const Tensor scale = mul(reciprocal(root, where), in[1].tensor, where);
    const Tensor centred = sub(x, per_channel(cast(mean, x.dtype(), where), x, where), where);
    const Tensor scaled = mul(centred, per_channel(cast(scale, x.dtype(), where), x, where), where);
    out[0].tensor = add(scaled, per_channel(cast(in[2].tensor, x.dtype(), where), x, where), where);
  }};
}

Translation layer_normalisation(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const double eps = node.real("epsilon", 1e-5);
  // The type of the mean and the deviation; the engine's are accurate whatever it is.
  const auto stash = dtype_of_code(node.integer("stash_type", 1));
  if (!stash) {
    node.refuse("the engine has no tensors of its stash_type");
  }
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const int first = axis_of(axis, x.rank());
    Shape shape;
    Axes axes;
    for (int i = first; i < x.rank(); ++i) {
      shape.push_back(x.shape()[i]);
      axes.push_back(i);
    }
    const auto weight = [&](const Tensor& t) {
      return !t.defined() || t.shape() == shape ? t : contiguous(expand(t, shape, where), where);
    };
    out[0].tensor = layer_norm(x, shape, weight(in[1].tensor), weight(optional_input(in, 2)), eps, where);
    if (out.size() > 1) {
      out[1].tensor = cast(mean(x, axes, true, where), *stash, where);
    }
    if (out.size() > 2) {
      const Tensor variance = var(x, axes, 0, true, where);
      out[2].tensor = cast(rsqrt(add(variance, scalar_like(variance, eps, where), where), where), *stash, where);
    }
  }};
}

Translation rms_normalisation(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const double eps = node.real("epsilon", 1e-5);
  node.ignore("stash_type");
  return binary(node, [=](const Tensor& x, const Tensor& weight, Location where) {
    Shape shape;
    for (int i = axis_of(axis, x.rank()); i < x.rank(); ++i) {
      shape.push_back(x.shape()[i]);
    }
    return rms_norm(x, shape, weight.shape() == shape ? weight : contiguous(expand(weight, shape, where), where), eps,
                    where);
  });
}

Translation instance_normalisation(NodeView& node) {
  const double eps = node.real("epsilon", 1e-5);
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    out[0].tensor = group_norm(x, x.rank() > 1 ? x.shape()[1] : 0, in[1].tensor, in[2].tensor, eps, where);
  }};
}

/// One weight per group in opset 18, one per channel from 21 on.
Translation group_normalisation(NodeView& node) {
  const double eps = node.real("epsilon", 1e-5);
  const std::int64_t groups = node.integer("num_groups", 0);
  const bool by_group = node.opset() < 21;
  node.ignore("stash_type");
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const auto by_channel = [&](const Tensor& t) {
      if (!by_group || x.rank() < 2 || groups < 1) {
        return t;
      }
      const std::int64_t each = x.shape()[1] / groups;
      return reshape(contiguous(expand(reshape(t, {groups, 1}, where), {groups, each}, where), where), {groups * each},
                     where);
    };
    out[0].tensor = group_norm(x, groups, by_channel(in[1].tensor), by_channel(in[2].tensor), eps, where);
  }};
}

Translation mean_variance_normalisation(NodeView& node) {
  const auto given_axes = node.integers("axes").value_or(std::vector<std::int64_t>{0, 2, 3});
  return unary(node, [=](const Tensor& x, Location where) {
    const Axes axes = axes_of(given_axes, x.rank());
    const Tensor centred = sub(x, mean(x, axes, true, where), where);
    const Tensor deviation = sqrt(var(x, axes, 0, true, where), where);
    return div(centred, add(deviation, scalar_like(x, 1e-9, where), where), where);
  });
}

/// x / (bias + alpha / size sum of squares over `size` neighbouring channels)^beta [Krizhevsky et al. 2012]
Translation local_response(NodeView& node) {
  const double alpha = node.real("alpha", 1e-4);
  const double beta = node.real("beta", 0.75);
  const double bias = node.real("bias", 1);
  const std::int64_t length = node.integer("size", 0);
  if (length < 1 || length > 65536) {
    node.malformed("its size isn't from 1 to 65536");
  }
  return unary(node, [=](const Tensor& x, Location where) {
    if (x.rank() < 2) {
      throw ShapeError(fmt::format("{} has no channels", to_string(x.type())));
    }
    std::vector<PadWidth> widths(static_cast<std::size_t>(x.rank()));
    widths[1] = {(length - 1) / 2, length / 2};
    const Tensor squares = pad(mul(x, x, where), widths, PadMode::constant, 0, where);
    Tensor total;
    for (std::int64_t i = 0; i < length; ++i) {
      const Tensor part = slice(squares, 1, i, i + x.shape()[1], 1, where);
      total = total.defined() ? add(total, part, where) : part;
    }
    const auto number = [&](double value) { return scalar_like(x, value, where); };
    const Tensor base = add(mul(total, number(alpha / static_cast<double>(length)), where), number(bias), where);
    return div(x, pow(base, Term(beta, where)), where);
  });
}

Translation lp_normalisation(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const std::int64_t p = node.integer("p", 2);
  return unary(node, [=](const Tensor& x, Location location) {
    const Tensor length = norm(x, static_cast<double>(p), {axis_of(axis, x.rank())}, true, location);
    const Tensor zero = scalar_like(length, 0, location);
    const Tensor is_zero = equal(length, zero, location);  // then so are all elements, and their gradients
    const Tensor divisor = where(is_zero, scalar_like(length, 1, location), length, location);
    return where(is_zero, zero, div(x, divisor, location), location);
  });
}
}  // namespace

void add_normalisations(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&)) {
    all.push_back({name, first, kNewestOpset, translate, ""});
  };
  op("BatchNormalization", 1, batch_normalisation);
  op("GroupNormalization", 18, group_normalisation);
  op("InstanceNormalization", 1, instance_normalisation);
  op("LRN", 1, local_response);
  op("LayerNormalization", 17, layer_normalisation);
  op("LpNormalization", 1, lp_normalisation);
  op("MeanVarianceNormalization", 9, mean_variance_normalisation);
  op("RMSNormalization", 23, rms_normalisation);
}

}  // namespace diptych::onnx
