#pragma once

#include "framework/dispatch/op.h"

namespace diptych::ops {

struct FullAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double value = 0;

  static constexpr auto fields() {
    return std::tuple(field("shape", &FullAttributes::shape), field("dtype", &FullAttributes::dtype),
                      field("value", &FullAttributes::value));
  }
};

/// Has the length and not the end: the number of elements is decided once, by the public function.
struct ArangeAttributes {
  double start = 0;
  double step = 1;
  std::int64_t length = 0;
  DType dtype = DType::int64;
  static constexpr auto fields() {
    return std::tuple(field("start", &ArangeAttributes::start), field("step", &ArangeAttributes::step),
                      field("length", &ArangeAttributes::length), field("dtype", &ArangeAttributes::dtype));
  }
};

struct LinspaceAttributes {
  double start = 0;
  double stop = 1;
  std::int64_t length = 0;
  DType dtype = DType::float32;
  static constexpr auto fields() {
    return std::tuple(field("start", &LinspaceAttributes::start), field("stop", &LinspaceAttributes::stop),
                      field("length", &LinspaceAttributes::length), field("dtype", &LinspaceAttributes::dtype));
  }
};

struct EyeAttributes {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType dtype = DType::float32;
  static constexpr auto fields() {
    return std::tuple(field("rows", &EyeAttributes::rows), field("columns", &EyeAttributes::columns),
                      field("dtype", &EyeAttributes::dtype));
  }
};

struct MaskedScaleAttributes {
  double scale = 1;
  static constexpr auto fields() { return std::tuple(field("scale", &MaskedScaleAttributes::scale)); }
};

struct UniformAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double low = 0;
  double high = 1;
  static constexpr auto fields() {
    return std::tuple(field("shape", &UniformAttributes::shape), field("dtype", &UniformAttributes::dtype),
                      field("low", &UniformAttributes::low), field("high", &UniformAttributes::high));
  }
};

struct NormalAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double mean = 0;
  double deviation = 1;
  static constexpr auto fields() {
    return std::tuple(field("shape", &NormalAttributes::shape), field("dtype", &NormalAttributes::dtype),
                      field("mean", &NormalAttributes::mean), field("deviation", &NormalAttributes::deviation));
  }
};

struct TruncatedNormalAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double mean = 0;
  double deviation = 1;
  double low = -2;
  double high = 2;
  static constexpr auto fields() {
    using A = TruncatedNormalAttributes;
    return std::tuple(field("shape", &A::shape), field("dtype", &A::dtype), field("mean", &A::mean),
                      field("deviation", &A::deviation), field("low", &A::low), field("high", &A::high));
  }
};

struct IntegersAttributes {
  Shape shape;
  DType dtype = DType::int64;
  std::int64_t low = 0;
  std::int64_t high = 1;
  static constexpr auto fields() {
    return std::tuple(field("shape", &IntegersAttributes::shape), field("dtype", &IntegersAttributes::dtype),
                      field("low", &IntegersAttributes::low), field("high", &IntegersAttributes::high));
  }
};

struct PermutationAttributes {
  std::int64_t count = 0;
  static constexpr auto fields() { return std::tuple(field("count", &PermutationAttributes::count)); }
};

struct BernoulliAttributes {
  Shape shape;
  DType dtype = DType::float32;
  double p = 0.5;
  static constexpr auto fields() {
    return std::tuple(field("shape", &BernoulliAttributes::shape), field("dtype", &BernoulliAttributes::dtype),
                      field("p", &BernoulliAttributes::p));
  }
};

struct LabelAttributes {
  InternedText label;
  static constexpr auto fields() { return std::tuple(field("label", &LabelAttributes::label)); }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// creation.cpp
extern const OpDef& full;
extern const OpDef& arange;
extern const OpDef& linspace;
extern const OpDef& eye;
// random.cpp
extern const OpDef& random_next_state;
extern const OpDef& masked_scale;
// continuous.cpp
extern const OpDef& random_uniform;
extern const OpDef& random_normal;
extern const OpDef& random_truncated_normal;
// discrete.cpp
extern const OpDef& random_integers;
extern const OpDef& random_permutation;
extern const OpDef& random_bernoulli;
extern const OpDef& random_bernoulli_of;

}  // namespace diptych::op
