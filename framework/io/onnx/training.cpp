// The optimisers of ONNX's preview of training, each for any number of tensors.

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// What an optimiser knows of one tensor: its elements, gradient, and one or two moments.
struct Slot {
  Tensor x, gradient, first, second;
};

/// The inputs R (rate) and T (updates before this one), both scalars, as the type of the tensors.
struct Clock {
  Tensor rate;
  Tensor updates;
  Tensor has_updates;
};

using Update = std::function<Slot(const Slot& before, const Clock& clock, Location where)>;

/// R, T, all tensors, all gradients, all first moments, all second ones -> tensors and moments in the same order.
Translation optimiser(NodeView& node, int moments, Update update) {
  const int each = 2 + moments;
  node.check_inputs(2 + each, NodeView::kAny);
  if ((node.inputs() - 2) % each != 0) {
    node.malformed(fmt::format("it has {} inputs, not two and then {} for each tensor", node.inputs(), each));
  }
  const auto count = static_cast<std::size_t>((node.inputs() - 2) / each);
  return {[=, update = std::move(update)](Inputs in, Outputs out, Location where) {
    if (in[0].tensor.numel() != 1 || in[1].tensor.numel() != 1) {
      throw ShapeError(
          fmt::format("a rate {} and a count {}", to_string(in[0].tensor.type()), to_string(in[1].tensor.type())));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto part = [&](std::size_t index) { return in[2 + index * count + i].tensor; };
      const Slot before{part(0), part(1), part(2), moments > 1 ? part(3) : Tensor()};
      for (const Tensor* other : {&before.gradient, &before.first}) {
        if (other->type() != before.x.type()) {
          throw ShapeError(fmt::format("{} for {}", to_string(other->type()), to_string(before.x.type())));
        }
      }
      const auto scalar = [&](const Tensor& t) { return reshape(cast(t, before.x.dtype(), where), {}, where); };
      const Tensor updates = scalar(in[1].tensor);
      const Clock clock{scalar(in[0].tensor), updates, greater(updates, scalar_like(updates, 0, where), where)};
      const Slot after = update(before, clock, where);
      const Tensor* results[] = {&after.x, &after.first, &after.second};
      for (std::size_t k = 0; k <= static_cast<std::size_t>(moments); ++k) {
        if (k * count + i < out.size()) {
          out[k * count + i].tensor = *results[k];
        }
      }
    }
  }};
}

/// The gradient with that of norm / 2 |x|^2.
Tensor regularised(const Slot& slot, double norm, Location where) {
  return norm == 0 ? slot.gradient : add(times(slot.x, norm, where), slot.gradient, where);
}
/// a first + b second
Tensor mixed(const Tensor& first, double a, const Tensor& second, double b, Location where) {
  return add(times(first, a, where), times(second, b, where), where);
}
Tensor moved(const Tensor& x, const Tensor& rate, const Tensor& step, Location where) {
  return sub(x, mul(rate, step, where), where);
}

/// [Duchi et al. 2011]
Translation adagrad(NodeView& node) {
  const double decay = node.real("decay_factor", 0);
  const double epsilon = node.real("epsilon", 1e-6);
  const double norm = node.real("norm_coefficient", 0);
  return optimiser(node, 1, [=](const Slot& before, const Clock& clock, Location where) {
    const Tensor rate = div(clock.rate, plus(times(clock.updates, decay, where), 1, where), where);
    const Tensor gradient = regularised(before, norm, where);
    const Tensor squares = add(before.first, mul(gradient, gradient, where), where);
    const Tensor step = div(gradient, plus(sqrt(squares, where), epsilon, where), where);
    return Slot{moved(before.x, rate, step, where), {}, squares, {}};
  });
}

/// [Kingma and Ba 2015]; before the first update there is no bias to correct.
Translation adam(NodeView& node) {
  const double alpha = node.real("alpha", 0.9);
  const double beta = node.real("beta", 0.999);
  if (!node.has("epsilon")) {
    node.refuse("it has no epsilon: the specification says 1e-6, its recorded case was computed with 0.01");
  }
  const double epsilon = node.real("epsilon", 1e-6);
  const double norm = node.real("norm_coefficient", 0);
  const double norm_after = node.real("norm_coefficient_post", 0);
  return optimiser(node, 2, [=](const Slot& before, const Clock& clock, Location location) {
    const Tensor gradient = regularised(before, norm, location);
    const Tensor mean = mixed(before.first, alpha, gradient, 1 - alpha, location);
    const Tensor squares = mixed(before.second, beta, mul(gradient, gradient, location), 1 - beta, location);
    const auto left = [&](double decay) {  // 1 - decay^T, or 1: a 0 would make the rate's gradient NaN
      const Tensor power = pow(scalar_like(clock.updates, decay, location), Term(clock.updates, location));
      const Tensor one = scalar_like(power, 1, location);
      return where(clock.has_updates, sub(one, power, location), one, location);
    };
    const Tensor rate = div(mul(clock.rate, sqrt(left(beta), location), location), left(alpha), location);
    const Tensor step = div(mean, plus(sqrt(squares, location), epsilon, location), location);
    const Tensor x = moved(before.x, rate, step, location);
    return Slot{norm_after == 0 ? x : times(x, 1 - norm_after, location), {}, mean, squares};
  });
}

Translation momentum(NodeView& node) {
  const double alpha = node.real("alpha", 0);
  const double beta = node.real("beta", 0);
  const double norm = node.real("norm_coefficient", 0);
  const std::string mode = node.text("mode", "");
  if (mode != "standard" && mode != "nesterov") {
    node.malformed("its mode isn't one of ONNX's");
  }
  return optimiser(node, 1, [=](const Slot& before, const Clock& clock, Location location) {
    const Tensor gradient = regularised(before, norm, location);
    const Tensor share = where(clock.has_updates, scalar_like(clock.rate, beta, location),
                               scalar_like(clock.rate, 1, location), location);
    const Tensor speed = add(times(before.first, alpha, location), mul(share, gradient, location), location);
    const Tensor step = mode == "standard" ? speed : add(gradient, times(speed, alpha, location), location);
    return Slot{moved(before.x, clock.rate, step, location), {}, speed, {}};
  });
}

}  // namespace

void add_training(std::vector<Operator>& all) {
  all.push_back({"ai.onnx.preview.training::Adagrad", 1, 1, adagrad});
  all.push_back({"ai.onnx.preview.training::Adam", 1, 1, adam, "with an epsilon"});
  all.push_back({"ai.onnx.preview.training::Momentum", 1, 1, momentum});
}

}  // namespace diptych::onnx
