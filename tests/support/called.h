#pragma once

#include <vector>

#include "framework/core/tensor.h"
#include "framework/dispatch/apply.h"

namespace diptych::testing {

/// The result of an op, also of one that no function of the library stands for.
inline Tensor called(const OpDef& op, const std::vector<Tensor>& inputs, const void* attributes) {
  std::vector<const Tensor*> operands;
  for (const Tensor& input : inputs) {
    operands.push_back(&input);
  }
  return apply(op, operands, attributes, Location::current());
}

}  // namespace diptych::testing
