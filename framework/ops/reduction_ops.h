#pragma once

#include "framework/dispatch/op.h"
#include "framework/ops/axis_attributes.h"

namespace diptych::ops {

struct VarianceAttributes {
  Axes axes;
  bool keepdims = false;
  double correction = 1;
  static constexpr auto fields() {
    return std::tuple(field("axes", &VarianceAttributes::axes), field("keepdims", &VarianceAttributes::keepdims),
                      field("correction", &VarianceAttributes::correction));
  }
};

struct ScanAttributes {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
  static constexpr auto fields() {
    return std::tuple(field("axis", &ScanAttributes::axis), field("exclusive", &ScanAttributes::exclusive),
                      field("reverse", &ScanAttributes::reverse));
  }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// reduction.cpp
extern const OpDef& sum;
extern const OpDef& prod;
// extremes.cpp
extern const OpDef& max;
extern const OpDef& min;
// truth.cpp
extern const OpDef& any;
extern const OpDef& all;
// statistics.cpp
extern const OpDef& var;
extern const OpDef& std;
// logsumexp.cpp
extern const OpDef& logsumexp;
// argmax.cpp
extern const OpDef& argmax;
extern const OpDef& argmin;
// scan.cpp
extern const OpDef& cumsum;

}  // namespace diptych::op
