#pragma once

#include <string_view>
#include <vector>

#include "tests/runtime/random_program.h"

/// What is appended to random programs of layers: parts of networks that ops drawn one by one would hardly ever form.
namespace diptych::testing {

/// In this order; each must be in the registry.
std::vector<const OpDef*> ops_named(const std::vector<std::string_view>& names);
/// `has_special`: also zeros, infinities, NaN and their like.
Tensor random_tensor(Random& random, DType dtype, const Shape& shape, bool has_special = true);

/// To a program that gives so many values. Its arguments are those of its style (random_program.cpp).
void append_layers(Random& random, Program& program, std::size_t values);

}  // namespace diptych::testing
