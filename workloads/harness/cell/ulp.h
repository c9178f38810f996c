#pragma once

#include <optional>

#include "framework/core/tensor.h"

namespace diptych::workloads {

/// The largest distance between elements at the same position, in units in the last place of their type: the number of
/// values of that type between them, plus one. 0 and -0 are equal, and so are all NaN. Empty if there is no distance:
/// different types, NaN against a number, integers that differ.
std::optional<double> ulp_distance(const Tensor& a, const Tensor& b);

}  // namespace diptych::workloads
