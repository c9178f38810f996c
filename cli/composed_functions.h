#pragma once

#include <span>

namespace diptych::reports {

/// A public function that is no op itself: it is made of ops, whose names graphs and profiles show.
struct ComposedFunction {
  const char* name;
  const char* doc;
  const char* ops;  ///< "slice, reshape"
};

/// Those of the headers in framework/ops/, by name.
std::span<const ComposedFunction> composed_functions();

}  // namespace diptych::reports
