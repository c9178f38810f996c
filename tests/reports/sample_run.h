#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports::testing {

/// A cell's true times; the rounds are drawn around them.
struct SampleCell {
  std::string workload = "mlp/digits";
  std::vector<std::string> arms = {"eager", "replay", "graph"};
  std::vector<double> seconds = {1.0e-4, 0.79e-4, 0.68e-4};
  std::vector<double> compile = {0, 1.1e-3, 6.5e-3};
};

struct SampleSize {
  std::string name = "standard";
  int processes = 8;
  int rounds = 12;
  double process_noise = 0.01;  ///< standard deviation of a process, on the log scale
  double round_noise = 0.02;
  std::uint64_t seed = 1;
};

/// A raw run that fits the contract once it is analysed.
nlohmann::json sample_run(const std::vector<SampleCell>& cells = {SampleCell{}}, const SampleSize& size = {});

/// The same with its computed part.
nlohmann::json analysed_run(const std::vector<SampleCell>& cells = {SampleCell{}}, const SampleSize& size = {});

/// One cell whose arms all take `factor` times as long; seeds differ as runs do.
nlohmann::json slowed_run(double factor = 1, std::uint64_t seed = 1, const SampleSize& size = {});

}  // namespace diptych::reports::testing
