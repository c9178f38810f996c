#pragma once

#include <iosfwd>

#include "framework/core/tensor.h"

/// Inspection of values while a program runs: immediately in eager; in a graph at each call, in program order, inside
/// loops once per iteration. Both functions return `x` itself, so that they can be part of an expression; gradients
/// pass through unchanged. Labels are kept for ever: use literals, not strings built anew for each call.
namespace diptych::debug {

/// Writes "label: f32[2] {1, 2}" and a newline, shortened above 16 elements.
Tensor print(std::string_view label, const Tensor& x, Location where = Location::current());

/// Throws Error if an element is NaN or infinite, with the index and value of the first.
Tensor check_finite(const Tensor& x, std::string_view name, Location where = Location::current());

/// While one lives, both functions do nothing on this thread: what the program computes again, to differentiate it, has
/// been looked at.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  bool before_;
};

/// Sets the stream of print for all threads; null: std::cout, the default. The stream must outlive its use.
void set_stream(std::ostream* stream);

}  // namespace diptych::debug
