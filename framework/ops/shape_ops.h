#pragma once

#include "framework/dispatch/op.h"
#include "framework/ops/axis_attributes.h"

namespace diptych::ops {

struct ShapeAttributes {
  Shape shape;
  static constexpr auto fields() { return std::tuple(field("shape", &ShapeAttributes::shape)); }
};

struct SliceAttributes {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  static constexpr auto fields() {
    return std::tuple(field("axis", &SliceAttributes::axis), field("start", &SliceAttributes::start),
                      field("stop", &SliceAttributes::stop), field("step", &SliceAttributes::step));
  }

  std::int64_t count() const { return stop == start ? 0 : (stop - start - 1) / step + 1; }
};

struct SliceBackwardAttributes {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t length = 0;  ///< of the sliced axis
  static constexpr auto fields() {
    return std::tuple(field("axis", &SliceBackwardAttributes::axis), field("start", &SliceBackwardAttributes::start),
                      field("step", &SliceBackwardAttributes::step), field("length", &SliceBackwardAttributes::length));
  }
};

struct DiagonalAttributes {
  std::int64_t diagonal = 0;
  static constexpr auto fields() { return std::tuple(field("diagonal", &DiagonalAttributes::diagonal)); }
};

struct PadAttributes {
  Dims before;
  Dims after;
  double value = 0;
  static constexpr auto fields() {
    return std::tuple(field("before", &PadAttributes::before), field("after", &PadAttributes::after),
                      field("value", &PadAttributes::value));
  }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// view.cpp
extern const OpDef& reshape;
extern const OpDef& permute;
extern const OpDef& expand;
// slice.cpp
extern const OpDef& slice_backward;
extern const OpDef& slice;
extern const OpDef& slice_update;
// shape.cpp
extern const OpDef& concat;
extern const OpDef& flip;
extern const OpDef& tril;
extern const OpDef& triu;
// pad.cpp
extern const OpDef& pad;

}  // namespace diptych::op
