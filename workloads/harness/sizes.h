#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace diptych::workloads {

/// How much is measured. The figures are those of docs/measurement.md: fixed, and never extended until something is
/// significant.
struct RunSize {
  std::string name;
  int processes;
  int rounds;
  /// A block (the timed unit of one arm in one round) lasts about this long, or one call if that is longer.
  double block_seconds;
};

inline const std::vector<RunSize>& run_sizes() {
  static const std::vector<RunSize> sizes = {
      {"quick", 3, 6, 0.015},
      {"standard", 8, 12, 0.1},
      {"gate", 12, 10, 0.01},
      {"certify", 30, 20, 0.1},
  };
  return sizes;
}

}  // namespace diptych::workloads
