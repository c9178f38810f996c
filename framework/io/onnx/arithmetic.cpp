// Elementwise arithmetic, comparisons, logic and casts.

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using BinaryOp = Tensor (*)(const Tensor&, const Tensor&, Location);

/// Operators before opset 7 broadcast only if an attribute says so: the axes of b are those of a from `axis` on, or the
/// last ones.
template <BinaryOp op>
Translation broadcasting(NodeView& node) {
  if (node.opset() >= 7 || node.integer("broadcast", 0) == 0) {
    return binary(node, op);
  }
  if (!node.has("axis")) {
    return binary(node, op);
  }
  const std::int64_t axis = node.integer("axis", 0);
  return binary(node, [axis](const Tensor& a, const Tensor& b, Location where) {
    Shape shape = b.shape();
    for (int i = axis_of(axis, a.rank()) + b.rank(); i < a.rank(); ++i) {
      shape.push_back(1);
    }
    return op(a, reshape(b, shape, where), where);
  });
}

/// In ONNX both sides have one type: the engine must not promote.
template <BinaryOp op>
Tensor of_one_type(const Tensor& a, const Tensor& b, Location where) {
  if (a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("{} and {}", to_string(a.type()), to_string(b.type())));
  }
  return op(a, b, where);
}
template <BinaryOp op>
Translation one_type(NodeView& node) {
  return broadcasting<of_one_type<op>>(node);
}

/// Integers are divided towards zero.
Tensor divide(const Tensor& a, const Tensor& b, Location where) {
  return is_integral(a.dtype()) ? quotient(a, b, where) : div(a, b, where);
}

template <BinaryOp op>
Translation variadic(NodeView& node) {
  node.check_inputs(1, NodeView::kAny);
  return {[](Inputs in, Outputs out, Location where) {
    Tensor result = in[0].tensor;
    for (const Value& next : in.subspan(1)) {
      result = of_one_type<op>(result, next.tensor, where);
    }
    out[0].tensor = result;
  }};
}

Translation mean_of(NodeView& node) {
  Translation total = variadic<add>(node);
  return {[total = std::move(total)](Inputs in, Outputs out, Location where) {
    total.run(in, out, where);
    out[0].tensor = div(out[0].tensor, scalar_like(out[0].tensor, static_cast<double>(in.size()), where), where);
  }};
}

/// The remainder with a's sign, like C's fmod. Integers use their quotient, because the least one has no absolute
/// value.
Tensor c_remainder(const Tensor& a, const Tensor& b, Location where) {
  if (is_integral(a.dtype())) {
    return sub(a, mul(quotient(a, b, where), b, where), where);
  }
  return mul(sign(a, where), remainder(abs(a, where), abs(b, where), where), where);
}

Translation modulo(NodeView& node) {
  const bool c_rule = node.integer("fmod", 0) != 0;
  return binary(node, [c_rule](const Tensor& a, const Tensor& b, Location where) {
    return c_rule ? of_one_type<c_remainder>(a, b, where) : of_one_type<remainder>(a, b, where);
  });
}

/// The only element of a known tensor, as that type, unless the tensor would add axes to one with so many, or the
/// number would be rounded.
std::optional<double> number_of(const Tensor& tensor, DType dtype, int rank) {
  constexpr double kExact = 0x1p53;
  if (tensor.numel() != 1 || tensor.rank() > rank) {
    return std::nullopt;
  }
  const KnownScope scope(true);
  const double number = cast(tensor, dtype).item();
  return std::fabs(number) < kExact ? std::optional(number) : std::nullopt;
}

/// The result has the base's type; for an exponent of another type, both are computed in the wider one. One that is
/// known is passed as a number, so that a graph can use that it is 2.
Translation power(NodeView& node) {
  node.check_inputs(2, 2);
  return {[](Inputs in, Outputs out, Location where) {
    const Tensor& base = in[0].tensor;
    const Tensor& exponent = in[1].tensor;
    DType common = promote(base.dtype(), exponent.dtype());
    if (is_integral(base.dtype()) && is_floating(common)) {
      common = DType::float64;  // because it represents more integers
    }
    const std::optional<double> number = in[1].known ? number_of(exponent, common, base.rank()) : std::nullopt;
    const Tensor wide = cast(base, common, where);
    out[0].tensor =
        cast(number ? pow(wide, Term(*number, where)) : pow(wide, Term(cast(exponent, common, where), where)),
             base.dtype(), where);
  }};
}

DType type_of_code(NodeView& node, std::int64_t code) {
  const auto dtype = dtype_of_code(code);
  if (!dtype) {
    node.refuse(fmt::format("the engine has no {} tensors", name_of_type(code)));
  }
  return *dtype;
}

Translation cast_to(NodeView& node) {
  const DType to = type_of_code(node, node.integer("to", 0));
  node.ignore("saturate");    // only for 8-bit floats, which the engine doesn't have
  node.ignore("round_mode");  // the same
  return unary(node, [to](const Tensor& x, Location where) { return cast(x, to, where); });
}

Translation cast_like(NodeView& node) {
  node.ignore("saturate");
  node.ignore("round_mode");
  return binary(node, [](const Tensor& x, const Tensor& like, Location where) { return cast(x, like.dtype(), where); });
}

/// Bounds are attributes before opset 11.
Translation clip_between(NodeView& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (node.opset() < 11) {
    const double low = node.real("min", -kInfinity);
    const double high = node.real("max", kInfinity);
    return unary(node, [=](const Tensor& x, Location where) { return clip(x, low, high, where); });
  }
  node.check_inputs(1, 3);
  return {[](Inputs in, Outputs out, Location where) {
    Tensor x = in[0].tensor;
    const bool has_low = in.size() > 1 && in[1].tensor.defined();
    const bool has_high = in.size() > 2 && in[2].tensor.defined();
    const auto is_number = [](const Value& bound) { return bound.known && !std::isnan(bound.tensor.item()); };
    // Passed as numbers, bounds of large integers would be rounded.
    if (is_floating(x.dtype()) && (!has_low || is_number(in[1])) && (!has_high || is_number(in[2]))) {
      out[0].tensor = clip(x, has_low ? host_real(in[1].tensor) : -kInfinity,
                           has_high ? host_real(in[2].tensor) : kInfinity, where);
      return;
    }
    x = has_low ? of_one_type<maximum>(x, in[1].tensor, where) : x;
    out[0].tensor = has_high ? of_one_type<minimum>(x, in[2].tensor, where) : x;
  }};
}

Translation choose(NodeView& node) {
  node.check_inputs(3, 3);
  return {[](Inputs in, Outputs out, Location location) {
    out[0].tensor = diptych::where(in[0].tensor, in[1].tensor, in[2].tensor, location);
  }};
}

Translation is_infinite(NodeView& node) {
  const bool negative = node.integer("detect_negative", 1) != 0;
  const bool positive = node.integer("detect_positive", 1) != 0;
  return unary(node, [=](const Tensor& x, Location where) {
    const Tensor found = isinf(x, where);
    if (negative && positive) {
      return found;
    }
    const Tensor zero = scalar_like(x, 0, where);
    if (negative || positive) {
      return logical_and(found, negative ? less(x, zero, where) : greater(x, zero, where), where);
    }
    return full(x.shape(), 0, DType::boolean, where);
  });
}

Translation identity(NodeView& node) {
  node.check_inputs(1, 1);
  Translation result{[](Inputs in, Outputs out, Location /*where*/) { out[0] = in[0]; }};
  result.takes_sequences = true;
  return result;
}

/// By the angle whose tangent is opposite / adjacent: (1 - x) (1 + x) is precise near -1 and 1, 1 - x^2 is not. The
/// ends of the range give infinite tangents; outside of it there is no angle.
Tensor arcsine(const Tensor& x, Location where) {
  const Tensor one = scalar_like(x, 1, where);
  const Tensor adjacent = sqrt(mul(sub(one, x, where), add(one, x, where), where), where);
  return atan(div(x, adjacent, where), where);
}
/// Half the angle, so that it is precise near 1, too.
Tensor arccosine(const Tensor& x, Location where) {
  const Tensor one = scalar_like(x, 1, where);
  const Tensor half = atan(sqrt(div(sub(one, x, where), add(one, x, where), where), where), where);
  return times(half, 2, where);
}
Tensor tangent(const Tensor& x, Location where) { return div(sin(x, where), cos(x, where), where); }
/// From here on the e^-x in sinh and cosh is below the last place, even in f64.
constexpr double kOneSided = 20;
/// From here on x^2 + 1 equals x^2, even in f64, and x^2 is still finite in f32.
constexpr double kSquared = 1e9;

/// An odd function from its half at x >= 0. |x| and sign(x) aren't used, because their derivatives are 0 at 0.
template <class Half>
Tensor odd(const Tensor& x, Location location, const Half& half) {
  const Tensor is_negative = less(x, scalar_like(x, 0, location), location);
  const Tensor y = half(diptych::where(is_negative, neg(x, location), x, location));
  return diptych::where(is_negative, neg(y, location), y, location);
}

/// `small` below `limit`, `large` from there on. Each is given only its own range: elsewhere its result could be NaN,
/// and so would the gradient.
template <class Small, class Large>
Tensor by_size(const Tensor& x, double limit, Location location, const Small& small, const Large& large) {
  const Tensor edge = scalar_like(x, limit, location);
  const Tensor is_small = less(x, edge, location);
  return diptych::where(is_small, small(diptych::where(is_small, x, edge, location)),
                        large(diptych::where(is_small, edge, x, location)), location);
}

/// e^x / 2, computed from e^(x / 2), so that it overflows only if the result does.
Tensor half_of_exp(const Tensor& x, Location where) {
  const Tensor half = scalar_like(x, 0.5, where);
  const Tensor root = exp(mul(x, half, where), where);
  return mul(mul(root, half, where), root, where);
}

/// (e^x - e^-x) / 2, without cancellation near 0.
Tensor sinh(const Tensor& x, Location where) {
  return odd(x, where, [&](const Tensor& positive) {
    return by_size(
        positive, kOneSided, where,
        [&](const Tensor& small) {
          const Tensor t = expm1(small, where);
          const Tensor one = scalar_like(x, 1, where);
          return mul(scalar_like(x, 0.5, where), add(t, div(t, add(t, one, where), where), where), where);
        },
        [&](const Tensor& large) { return half_of_exp(large, where); });
  });
}
Tensor cosh(const Tensor& x, Location where) {
  return by_size(
      abs(x, where), kOneSided, where,
      [&](const Tensor& small) {
        return mul(scalar_like(x, 0.5, where), add(exp(small, where), exp(neg(small, where), where), where), where);
      },
      [&](const Tensor& large) { return half_of_exp(large, where); });
}
/// log(2 x)
Tensor log_of_twice(const Tensor& x, Location where) {
  return add(log(x, where), scalar_like(x, std::numbers::ln2, where), where);
}
/// log(x + sqrt(x^2 + 1)), with log1p near 0.
Tensor asinh(const Tensor& x, Location where) {
  return odd(x, where, [&](const Tensor& positive) {
    return by_size(
        positive, kSquared, where,
        [&](const Tensor& small) {
          const Tensor squared = mul(small, small, where);
          const Tensor one = scalar_like(x, 1, where);
          const Tensor rest = div(squared, add(sqrt(add(squared, one, where), where), one, where), where);
          return log1p(add(small, rest, where), where);
        },
        [&](const Tensor& large) { return log_of_twice(large, where); });
  });
}
/// log(x + sqrt(x^2 - 1)); with t = x - 1, log1p(t + sqrt(t^2 + 2 t)).
Tensor acosh(const Tensor& x, Location where) {
  return by_size(
      x, kSquared, where,
      [&](const Tensor& small) {
        const Tensor t = sub(small, scalar_like(x, 1, where), where);
        const Tensor twice = mul(t, scalar_like(x, 2, where), where);
        return log1p(add(t, sqrt(add(mul(t, t, where), twice, where), where), where), where);
      },
      [&](const Tensor& large) { return log_of_twice(large, where); });
}
/// log((1 + x) / (1 - x)) / 2
Tensor atanh(const Tensor& x, Location where) {
  return odd(x, where, [&](const Tensor& positive) {
    const Tensor rest = sub(scalar_like(x, 1, where), positive, where);
    const Tensor ratio = div(mul(positive, scalar_like(x, 2, where), where), rest, where);
    return mul(scalar_like(x, 0.5, where), log1p(ratio, where), where);
  });
}

}  // namespace

void add_arithmetic(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("Abs", 1, plain<abs>);
  op("Acos", 7, plain<arccosine>);
  op("Acosh", 9, plain<acosh>);
  op("Add", 1, one_type<add>);
  op("And", 1, broadcasting<logical_and>);
  op("Asin", 7, plain<arcsine>);
  op("Asinh", 9, plain<asinh>);
  op("Atan", 7, plain<atan>);
  op("Atanh", 9, plain<atanh>);
  op("Cast", 6, cast_to);
  op("CastLike", 15, cast_like);
  op("Ceil", 1, plain<ceil>);
  op("Clip", 1, clip_between);
  op("Cos", 7, plain<cos>);
  op("Cosh", 9, plain<cosh>);
  op("Div", 1, one_type<divide>);
  op("Equal", 1, one_type<equal>);
  op("Erf", 9, plain<erf>);
  op("Exp", 1, plain<exp>);
  op("Floor", 1, plain<floor>);
  op("Greater", 1, one_type<greater>);
  op("GreaterOrEqual", 12, one_type<greater_equal>);
  op("Identity", 1, identity);
  op("IsInf", 10, is_infinite);
  op("IsNaN", 9, plain<isnan>);
  op("Less", 1, one_type<less>);
  op("LessOrEqual", 12, one_type<less_equal>);
  op("Log", 1, plain<log>);
  op("Max", 1, variadic<maximum>);
  op("Mean", 1, mean_of);
  op("Min", 1, variadic<minimum>);
  op("Mod", 10, modulo);
  op("Mul", 1, one_type<mul>);
  op("Neg", 1, plain<neg>);
  op("Not", 1, plain<logical_not>);
  op("Or", 1, broadcasting<logical_or>);
  op("Pow", 1, power);
  op("Reciprocal", 1, plain<reciprocal>);
  op("Round", 11, plain<round>);
  op("Sign", 9, plain<sign>);
  op("Sin", 7, plain<sin>);
  op("Sinh", 9, plain<sinh>);
  op("Sqrt", 1, plain<sqrt>);
  op("Sub", 1, one_type<sub>);
  op("Sum", 1, variadic<add>);
  op("Tan", 7, plain<tangent>);
  op("Where", 9, choose);
  op("Xor", 1, broadcasting<logical_xor>);
}

}  // namespace diptych::onnx
