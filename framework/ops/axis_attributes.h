#pragma once

#include "framework/core/attributes.h"

/// Attributes that several op families share.
namespace diptych::ops {

struct AxisAttributes {
  std::int64_t axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttributes::axis)); }
};

struct AxesAttributes {
  Axes axes;
  static constexpr auto fields() { return std::tuple(field("axes", &AxesAttributes::axes)); }
};

struct ReduceAttributes {
  Axes axes;  ///< sorted, without duplicates or negative axes
  bool keepdims = false;
  static constexpr auto fields() {
    return std::tuple(field("axes", &ReduceAttributes::axes), field("keepdims", &ReduceAttributes::keepdims));
  }
};

}  // namespace diptych::ops
