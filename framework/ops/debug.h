#pragma once

#include <iosfwd>

#include "framework/core/tensor.h"

/// Looking at values while a program runs: at once in eager; in a graph at each call, in program order, inside loops
/// once an iteration. Both give `x` itself back, so that they can stand inside an expression; gradients pass by them.
/// Labels are kept for ever: use literals, not texts made anew for each call.
namespace diptych::debug {

/// Writes "label: f32[2] {1, 2}" and a newline, shortened over 16 elements.
Tensor print(std::string_view label, const Tensor& x, Location where = Location::current());

/// Throws Error if an element is NaN or infinite, with the first one's index and value.
Tensor check_finite(const Tensor& x, std::string_view name, Location where = Location::current());

/// Where print writes, on all threads; null: std::cout, as at first. The stream must outlive its use.
void set_stream(std::ostream* stream);

}  // namespace diptych::debug
