// Activation functions, softmax and dropout.

#include <cmath>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/random.h"
#include "framework/ops/reduction.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

Translation leaky(NodeView& node) {
  const double slope = node.real("alpha", 0.01);
  return unary(node, [slope](const Tensor& x, Location where) { return leaky_relu(x, slope, where); });
}

Translation exponential(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  return unary(node, [alpha](const Tensor& x, Location where) { return elu(x, alpha, where); });
}

/// gamma (x where x > 0, else alpha (e^x - 1)) [Klambauer et al. 2017]
Translation scaled_exponential(NodeView& node) {
  const double alpha = node.real("alpha", 1.67326319217681884765625);
  const double gamma = node.real("gamma", 1.05070102214813232421875);
  return unary(node, [=](const Tensor& x, Location where) { return times(elu(x, alpha, where), gamma, where); });
}

/// max(x, 0) + min(0, alpha (e^(x / alpha) - 1)), which is alpha elu(x / alpha) both below and above 0.
Translation celu(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  return unary(node, [alpha](const Tensor& x, Location where) {
    const Tensor scaled = div(x, scalar_like(x, alpha, where), where);
    return times(elu(scaled, 1, where), alpha, where);
  });
}

Translation hard_sigmoid_of(NodeView& node) {
  const double alpha = node.real("alpha", 0.2);
  const double beta = node.real("beta", 0.5);
  return unary(node, [=](const Tensor& x, Location where) {
    return clip(add(times(x, alpha, where), scalar_like(x, beta, where), where), 0, 1, where);
  });
}

Tensor softplus_of(const Tensor& x, Location where) { return softplus(x, 1, where); }
Tensor softsign(const Tensor& x, Location where) {
  return div(x, add(abs(x, where), scalar_like(x, 1, where), where), where);
}
/// x sigmoid(alpha x) [Ramachandran et al. 2017]
Tensor swish_of(const Tensor& x, double alpha, Location where) {
  return alpha == 1 ? silu(x, where) : mul(x, sigmoid(times(x, alpha, where), where), where);
}
Translation swish(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  return unary(node, [alpha](const Tensor& x, Location where) { return swish_of(x, alpha, where); });
}

/// x tanh(log(1 + e^x)) [Misra 2019]
Tensor mish(const Tensor& x, Location where) { return mul(x, tanh(softplus(x, 1, where), where), where); }

Translation gelu_of(NodeView& node) {
  const std::string kind = node.text("approximate", "none");
  if (kind != "none" && kind != "tanh") {
    node.refuse("it is approximated by another function than tanh");
  }
  return unary(node, [exact = kind == "none"](const Tensor& x, Location where) {
    return exact ? gelu(x, where) : gelu_tanh(x, where);
  });
}

Translation parametric(NodeView& node) {
  const bool by_channel = node.opset() < 7;  // earlier, a list of slopes meant one per channel
  return binary(node, [by_channel](const Tensor& x, Tensor slope, Location location) {
    if (by_channel && slope.rank() == 1 && slope.numel() > 1 && x.rank() > 2) {
      Shape shape = Shape::filled(x.rank() - 1, 1);
      shape[0] = slope.numel();
      slope = reshape(slope, shape, location);
    }
    return where(less(x, scalar_like(x, 0, location), location), mul(x, slope, location), x, location);
  });
}

Translation thresholded(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  return unary(node, [alpha](const Tensor& x, Location location) {
    return where(greater(x, scalar_like(x, alpha, location), location), x, scalar_like(x, 0, location), location);
  });
}

Translation shrink(NodeView& node) {
  const double bias = node.real("bias", 0);
  const double lambda = node.real("lambd", 0.5);
  return unary(node, [=](const Tensor& x, Location location) {
    const auto number = [&](double value) { return scalar_like(x, value, location); };
    const Tensor above =
        where(greater(x, number(lambda), location), sub(x, number(bias), location), number(0), location);
    return where(less(x, number(-lambda), location), add(x, number(bias), location), above, location);
  });
}

/// Before opset 13 all axes from `axis` on count as one, and `axis` is 1 by default.
template <Tensor (*op)(const Tensor&, int, Location)>
Translation normalised(NodeView& node) {
  const bool flattens = node.opset() < 13;
  const std::int64_t axis = node.integer("axis", flattens ? 1 : -1);
  return unary(node, [=](const Tensor& x, Location where) {
    const int place = x.rank() == axis && flattens ? x.rank() : axis_of(axis, x.rank());
    if (!flattens || place == x.rank() - 1) {
      return op(x, place, where);
    }
    std::int64_t rows = 1;
    for (int i = 0; i < place; ++i) {
      rows *= x.shape()[i];
    }
    const std::int64_t columns = rows == 0 ? 0 : x.numel() / rows;
    return reshape(op(reshape(x, {rows, columns}, where), 1, where), x.shape(), where);
  });
}

Tensor hardmax(const Tensor& x, int axis, Location where) {
  const Tensor first = argmax(x, axis, true, where);
  Shape shape = Shape::filled(x.rank(), 1);
  shape[axis] = x.shape()[axis];
  const Tensor places = reshape(arange(static_cast<double>(x.shape()[axis]), DType::int64, where), shape, where);
  return cast(equal(first, places, where), x.dtype(), where);
}

/// In training each element is dropped with probability `ratio`, and the others are divided by 1 - ratio
/// [Srivastava et al. 2014].
Translation dropout(NodeView& node) {
  const double ratio = node.real("ratio", 0.5);
  const bool always_trains = node.opset() < 7 && node.integer("is_test", 0) == 0;
  const Generator generator = generator_of(node);
  node.check_inputs(1, 3);
  const bool wants_mask = node.wants_output(1);
  const bool old_mask = node.opset() < 10;
  Translation result{
      [=](Inputs in, Outputs out, Location location) {
        const Tensor& x = in[0].tensor;
        const bool trains = always_trains || (in.size() > 2 && in[2].tensor.defined() && in[2].tensor.item() != 0);
        const double share = !trains ? 0 : in.size() > 1 && in[1].tensor.defined() ? host_real(in[1].tensor) : ratio;
        if (!(share >= 0 && share < 1)) {
          throw Error(fmt::format("its ratio is {}; it is from 0 to below 1", share));
        }
        Tensor keeps;
        out[0].tensor = x;
        if (share > 0) {
          keeps = bernoulli(x.shape(), 1 - share, DType::boolean, generator, location);
          out[0].tensor = where(keeps, times(x, 1 / (1 - share), location), scalar_like(x, 0, location), location);
          out[0].drawn = true;
        }
        if (wants_mask) {
          const DType type = old_mask ? x.dtype() : DType::boolean;
          out[1].tensor = keeps.defined() ? cast(keeps, type, location) : full(x.shape(), 1, type, location);
          out[1].drawn = keeps.defined();
        }
      },
      {1, 2}};
  result.draws = always_trains || node.has_input(2);
  return result;
}

/// swish(a) b, of equal shapes [Shazeer 2020]
Translation swish_gated(NodeView& node) {
  const double alpha = node.real("alpha", 1);
  return binary(node, [alpha](const Tensor& a, const Tensor& b, Location where) {
    if (a.type() != b.type()) {
      throw ShapeError(fmt::format("{} and {}", to_string(a.type()), to_string(b.type())));
    }
    return mul(swish_of(a, alpha, where), b, where);
  });
}

}  // namespace

void add_activations(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("Celu", 12, celu);
  op("Dropout", 1, dropout);
  op("Elu", 1, exponential);
  op("Gelu", 20, gelu_of);
  op("HardSigmoid", 1, hard_sigmoid_of);
  op("HardSwish", 14, plain<hard_swish>);
  op("Hardmax", 1, normalised<hardmax>);
  op("LeakyRelu", 1, leaky);
  op("LogSoftmax", 1, normalised<log_softmax>);
  op("Mish", 18, plain<mish>);
  op("PRelu", 1, parametric);
  op("Relu", 1, plain<relu>);
  op("Selu", 1, scaled_exponential);
  op("Shrink", 9, shrink);
  op("Sigmoid", 1, plain<sigmoid>);
  op("Softmax", 1, normalised<softmax>);
  op("Softplus", 1, plain<softplus_of>);
  op("Softsign", 1, plain<softsign>);
  op("SwiGLU", 28, swish_gated);
  op("Swish", 24, swish);
  op("Tanh", 1, plain<tanh>);
  op("ThresholdedRelu", 10, thresholded);
}

}  // namespace diptych::onnx
