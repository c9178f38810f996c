#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace diptych::workloads {

/// Estimates how long a run still takes from the time of its cells so far. Seconds of any one clock.
class TimeLeft {
 public:
  /// Records that a cell took this long in one more process.
  void add(const std::string& workload, double seconds);
  /// The estimate for these cells, with one entry per measurement, of which the first began `elapsed` seconds ago. Null
  /// if one of them was never measured.
  std::optional<double> seconds(const std::vector<std::string>& cells, double elapsed) const;

 private:
  struct Taken {
    double first = 0;           ///< including the full check, the counts, and whatever else only the first process does
    std::vector<double> later;  ///< of the later processes
  };
  double expected(const Taken& taken) const;

  std::map<std::string, Taken> taken_;
};

}  // namespace diptych::workloads
