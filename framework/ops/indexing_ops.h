#pragma once

#include "framework/dispatch/op.h"
#include "framework/ops/axis_attributes.h"

namespace diptych::ops {

struct OneHotAttributes {
  std::int64_t depth = 1;
  DType dtype = DType::float32;
  static constexpr auto fields() {
    return std::tuple(field("depth", &OneHotAttributes::depth), field("dtype", &OneHotAttributes::dtype));
  }
};

struct IndexAttributes {
  Dims lengths;  ///< one, or one for each place along the last axis
  bool from_end = true;
  static constexpr auto fields() {
    return std::tuple(field("lengths", &IndexAttributes::lengths), field("from_end", &IndexAttributes::from_end));
  }
};

struct SortAttributes {
  std::int64_t axis = 0;
  bool descending = false;
  static constexpr auto fields() {
    return std::tuple(field("axis", &SortAttributes::axis), field("descending", &SortAttributes::descending));
  }
};

struct TopkAttributes {
  std::int64_t k = 1;
  std::int64_t axis = 0;
  bool largest = true;
  static constexpr auto fields() {
    return std::tuple(field("k", &TopkAttributes::k), field("axis", &TopkAttributes::axis),
                      field("largest", &TopkAttributes::largest));
  }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// indexing.cpp
extern const OpDef& index_select;
extern const OpDef& embedding;
extern const OpDef& index_add;
extern const OpDef& one_hot;
// normalise_indices.cpp
extern const OpDef& normalise_indices;
// scatter.cpp
extern const OpDef& gather;
extern const OpDef& scatter;
extern const OpDef& scatter_add;
// sorting.cpp
extern const OpDef& argsort;
extern const OpDef& topk_indices;

}  // namespace diptych::op
