#pragma once

#include <string>
#include <vector>

namespace diptych::workloads {

/// A deliberate slowdown, to see a gate fail: fractions of a call's time and of its instructions.
struct Injection {
  double time = 0;
  double instructions = 0;
  std::vector<std::string> arms;  ///< the arms that get it; empty: all but eager

  bool any() const { return time > 0 || instructions > 0; }
  bool hits(const std::string& arm) const;
};

}  // namespace diptych::workloads
