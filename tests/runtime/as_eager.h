#pragma once

#include "tests/graph/variants.h"

namespace diptych::testing {

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Two calls of each kind of graph.
inline void expect_as_eager(const Function& fn, const std::vector<Tensor>& arguments) {
  const std::vector<Tensor> expected = fn(arguments);
  for (const Variant& variant : pipeline_variants()) {
    auto function = jit(fn, {.pipeline = variant.pipeline});
    expect_same_bits(function(arguments), expected, variant.name + ", first call");
    expect_same_bits(function(arguments), expected, variant.name + ", second call");
  }
}

}  // namespace diptych::testing
