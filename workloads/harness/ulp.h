#pragma once

#include <optional>

#include "framework/core/tensor.h"

namespace diptych::workloads {

/// The largest distance between elements in the same place, in units in the last place of their type: how many numbers
/// of that type lie between them, plus one. 0 and -0 are the same, as are all NaN. Empty where there is none: different
/// types, NaN against a number, integers that differ.
std::optional<double> ulp_distance(const Tensor& a, const Tensor& b);

}  // namespace diptych::workloads
