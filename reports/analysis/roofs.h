#pragma once

#include <optional>
#include <string>
#include <vector>

/// What a machine can do at best, and the least time that work takes there [Williams, Waterman, Patterson 2009].
namespace diptych::reports {

/// A place that data comes from.
struct MemoryRoof {
  std::string level;                 ///< "L2"; "memory" is behind all caches
  std::optional<double> size_bytes;  ///< nothing: memory
  double bytes_per_second = 0;
};

struct MachineRoofs {
  double flops_per_second = 0;
  std::vector<MemoryRoof> memory;  ///< the smallest first; at least one
};

struct LeastTime {
  MemoryRoof from;  ///< the smallest level that holds the bytes, where a program that runs again and again finds them
  double compute_seconds = 0, memory_seconds = 0;

  double seconds() const { return compute_seconds > memory_seconds ? compute_seconds : memory_seconds; }
};
LeastTime least_time(const MachineRoofs& roofs, double flops, double bytes);

}  // namespace diptych::reports
