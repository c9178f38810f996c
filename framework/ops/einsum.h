#pragma once

#include <string_view>
#include <vector>

#include "framework/core/tensor.h"

namespace diptych {

/// Einstein summation: one letter per axis, operands separated by commas, then "->" and the axes of the result; letters
/// that the result doesn't contain are summed over. Without "->" the result has the letters that occur once, in
/// alphabetical order. "..." stands for any leading axes, which broadcast; so do axes of length 1. For example
/// "bqhd,bkhd->bhqk". Two operands are one matrix product (floating types), or a broadcast product where nothing is
/// summed; more are contracted from left to right. A letter that an operand has twice takes the diagonal of these axes.
/// Throws Error with the position for a malformed equation, ShapeError where lengths don't fit.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Location where = Location::current());

}  // namespace diptych
