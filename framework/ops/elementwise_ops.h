#pragma once

#include <limits>

#include "framework/dispatch/op.h"

namespace diptych::ops {

struct CastAttributes {
  DType dtype = DType::float32;
  static constexpr auto fields() { return std::tuple(field("dtype", &CastAttributes::dtype)); }
};

struct LeakyReluAttributes {
  double slope = 0.01;
  static constexpr auto fields() { return std::tuple(field("slope", &LeakyReluAttributes::slope)); }
  static LeakyReluAttributes example() { return {0.2}; }
  void check(const InferCall& call) const;
};

struct EluAttributes {
  double alpha = 1;
  static constexpr auto fields() { return std::tuple(field("alpha", &EluAttributes::alpha)); }
  static EluAttributes example() { return {0.7}; }
  void check(const InferCall& call) const;
};

struct SoftplusAttributes {
  double beta = 1;
  static constexpr auto fields() { return std::tuple(field("beta", &SoftplusAttributes::beta)); }
  static SoftplusAttributes example() { return {1.5}; }
  void check(const InferCall& call) const;
};

struct ClipAttributes {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  static constexpr auto fields() {
    return std::tuple(field("low", &ClipAttributes::low), field("high", &ClipAttributes::high));
  }
  static ClipAttributes example() { return {-1, 2}; }
  void check(const InferCall& call) const;
};

struct AxpbyAttributes {
  double alpha = 1;
  double beta = 1;
  static constexpr auto fields() {
    return std::tuple(field("alpha", &AxpbyAttributes::alpha), field("beta", &AxpbyAttributes::beta));
  }
};

struct SecondMomentAttributes {
  double decay = 0.999;
  static constexpr auto fields() { return std::tuple(field("decay", &SecondMomentAttributes::decay)); }
};

struct AdamDirectionAttributes {
  double epsilon = 1e-8;
  static constexpr auto fields() { return std::tuple(field("epsilon", &AdamDirectionAttributes::epsilon)); }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// binary.cpp
extern const OpDef& add;
extern const OpDef& sub;
extern const OpDef& mul;
extern const OpDef& div;
extern const OpDef& pow;
extern const OpDef& remainder;
extern const OpDef& quotient;
extern const OpDef& maximum;
extern const OpDef& minimum;
// comparison.cpp
extern const OpDef& equal;
extern const OpDef& not_equal;
extern const OpDef& less;
extern const OpDef& less_equal;
extern const OpDef& greater;
extern const OpDef& greater_equal;
extern const OpDef& logical_and;
extern const OpDef& logical_xor;
extern const OpDef& logical_or;
// unary.cpp
extern const OpDef& neg;
extern const OpDef& abs;
extern const OpDef& sign;
extern const OpDef& square;
extern const OpDef& sqrt;
extern const OpDef& reciprocal;
extern const OpDef& rsqrt;
extern const OpDef& floor;
extern const OpDef& ceil;
extern const OpDef& round;
extern const OpDef& isnan;
extern const OpDef& isinf;
extern const OpDef& isfinite;
extern const OpDef& logical_not;
extern const OpDef& copy;
extern const OpDef& stop_gradient;
// transcendental.cpp
extern const OpDef& exp;
extern const OpDef& log;
extern const OpDef& expm1;
extern const OpDef& log1p;
extern const OpDef& sin;
extern const OpDef& cos;
extern const OpDef& atan;
extern const OpDef& erf;
// selection.cpp
extern const OpDef& where;
extern const OpDef& cast;
// activation.cpp
extern const OpDef& tanh_backward;
extern const OpDef& tanh;
extern const OpDef& sigmoid_backward;
extern const OpDef& sigmoid;
extern const OpDef& relu_backward;
extern const OpDef& relu;
extern const OpDef& leaky_relu_backward;
extern const OpDef& leaky_relu;
extern const OpDef& elu_backward;
extern const OpDef& elu;
extern const OpDef& softplus_backward;
extern const OpDef& softplus;
extern const OpDef& hard_sigmoid_backward;
extern const OpDef& hard_sigmoid;
extern const OpDef& clip_backward;
extern const OpDef& clip;
// gated_activation.cpp
extern const OpDef& hard_swish_backward;
extern const OpDef& hard_swish;
extern const OpDef& silu_backward;
extern const OpDef& silu;
extern const OpDef& gelu_backward;
extern const OpDef& gelu;
extern const OpDef& gelu_tanh_backward;
extern const OpDef& gelu_tanh;
// update.cpp
extern const OpDef& axpby;
extern const OpDef& second_moment;
extern const OpDef& descend;
extern const OpDef& adam_direction;

}  // namespace diptych::op
