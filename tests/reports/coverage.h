#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace diptych::reports::testing {

using Random = std::mt19937_64;

/// Times of both arms in one simulated process, round by round.
struct SimulatedProcess {
  std::vector<double> base, arm;
};

/// A kind of data whose true mean log ratio is known without simulation: whatever the rounds do, they do it to both
/// arms alike, so that their differences are symmetric about the process's own effect.
struct DataKind {
  std::string name;
  double mean_effect;
  std::function<SimulatedProcess(Random&, int rounds)> draw;
  bool within_range = true;  ///< the shipped interval covers 93 to 97 %; false: documented where it doesn't
};

std::vector<DataKind> data_kinds();

struct Coverage {
  double shipped = 0, t = 0, sign = 0, bootstrap = 0;  ///< fractions of repetitions
  double widening = 0;                                 ///< mean width of the shipped interval / that of Student's t
};

/// Fractions of repetitions in which each 95 % interval held the truth; the sign interval's is the median over
/// processes, taken from a large simulation. `bootstraps`: repetitions that also get a bootstrap (it is slow); 0: none,
/// and no sign interval either.
Coverage coverage(const DataKind& kind, int processes, int rounds, int repetitions, int bootstraps, std::uint64_t seed);

}  // namespace diptych::reports::testing
