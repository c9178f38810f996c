#pragma once

#include <vector>

#include "framework/graph/ir.h"

namespace diptych::graph {

/// Which values of a graph have to keep their strides, because the bits of a result depend on them: with OpenBLAS what
/// a contraction or control flow reads, through views too; else none.
class FixedLayouts {
 public:
  explicit FixedLayouts(const Graph& graph);

  /// Of values that came later: false.
  bool contains(ValueId value) const { return value < fixed_.size() && fixed_[value]; }

 private:
  std::vector<bool> fixed_;
};

}  // namespace diptych::graph
