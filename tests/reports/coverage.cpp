#include "tests/reports/coverage.h"

#include <cmath>

#include "reports/statistics/distributions.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/welch.h"

namespace diptych::reports::testing {
namespace {

double normal(Random& random) { return std::normal_distribution<double>()(random); }
double exponential(Random& random) { return std::exponential_distribution<double>()(random); }
bool happens(Random& random, double probability) {
  return std::uniform_real_distribution<double>()(random) < probability;
}

constexpr double call = 1e-3;

// `effect` of a process, `noise` of a round of one arm.
template <class Effect, class Noise>
auto independent(Effect effect, Noise noise) {
  return [=](Random& random, int rounds) {
    SimulatedProcess process;
    const double e = effect(random);
    for (int j = 0; j < rounds; ++j) {
      process.base.push_back(call * std::exp(e + noise(random)));
      process.arm.push_back(call * std::exp(noise(random)));
    }
    return process;
  };
}

// The machine becomes faster or slower by about 10 % over a process, also between the two arms of a round.
SimulatedProcess drifting(Random& random, int rounds) {
  SimulatedProcess process;
  const double effect = 0.01 * normal(random);
  const double slope = 0.1 * normal(random) / (2 * rounds);
  int position = 0;
  const auto time = [&](double e) { return call * std::exp(e + slope * position++ + 0.01 * normal(random)); };
  bool base_first = happens(random, 0.5);
  for (int j = 0; j < rounds; ++j, base_first = !base_first) {
    if (base_first) {
      process.base.push_back(time(effect));
      process.arm.push_back(time(0));
    } else {
      process.arm.push_back(time(0));
      process.base.push_back(time(effect));
    }
  }
  return process;
}

SimulatedProcess autocorrelated(Random& random, int rounds) {
  SimulatedProcess process;
  const double effect = 0.01 * normal(random);
  double base = 0.02 * normal(random);
  double arm = 0.02 * normal(random);
  for (int j = 0; j < rounds; ++j) {
    process.base.push_back(call * std::exp(effect + base));
    process.arm.push_back(call * std::exp(arm));
    base = 0.8 * base + 0.6 * 0.02 * normal(random);
    arm = 0.8 * arm + 0.6 * 0.02 * normal(random);
  }
  return process;
}

}  // namespace

std::vector<DataKind> data_kinds() {
  const auto process = [](Random& r) { return 0.01 * normal(r); };
  const auto round = [](Random& r) { return 0.02 * normal(r); };
  const auto quiet = [](Random& r) { return 0.002 * normal(r); };
  const auto layouts = [](double share) {
    return [share](Random& r) { return 0.005 * normal(r) + (happens(r, share) ? 0.04 : 0); };
  };
  return {
      {"normal", 0, independent(process, round)},
      {"skewed rounds (log-normal, sigma 0.8)", 0,
       independent(process, [](Random& r) { return 0.03 * std::exp(0.8 * normal(r)); })},
      {"spikes: a tenth of the blocks 50 % slower", 0,
       independent(process, [](Random& r) { return 0.01 * normal(r) + (happens(r, 0.1) ? 0.5 * exponential(r) : 0); })},
      {"drift of 10 % over a process", 0, drifting},
      {"autocorrelated rounds (0.8)", 0, autocorrelated},
      {"skewed processes (gamma, skewness 1)", 0,
       independent(
           [](Random& r) { return 0.005 * (exponential(r) + exponential(r) + exponential(r) + exponential(r) - 4); },
           round)},
      {"skewed processes (log-normal, sigma 0.5)", 0.02 * std::exp(0.125),
       independent([](Random& r) { return 0.02 * std::exp(0.5 * normal(r)); }, round)},
      {"heavy tails (Student t, 3 degrees)", 0,
       independent([](Random& r) { return 0.006 * std::student_t_distribution<double>(3)(r); }, round)},
      {"two layouts: a quarter of processes 4 % off", 0.01, independent(layouts(0.25), round)},
      {"exponential processes (skewness 2), quiet rounds", 0,
       independent([](Random& r) { return 0.01 * (exponential(r) - 1); }, quiet)},
      {"log-normal processes (sigma 0.8, skewness 3.7), quiet rounds", 0.01 * std::exp(0.32),
       independent([](Random& r) { return 0.01 * std::exp(0.8 * normal(r)); }, quiet), false},
  };
}

Coverage coverage(const DataKind& kind, int processes, int rounds, int repetitions, int bootstraps,
                  std::uint64_t seed) {
  Random random(seed);
  double middle = 0;
  if (bootstraps > 0) {
    std::vector<double> many;
    for (int i = 0; i < 40000; ++i) {
      const SimulatedProcess p = kind.draw(random, rounds);
      many.push_back(process_effect(p.base, p.arm));
    }
    middle = median(many);
  }
  const double t = student_t_quantile(0.975, processes - 1);
  Coverage found;
  double width = 0;
  double student_width = 0;
  for (int i = 0; i < repetitions; ++i) {
    std::vector<double> effects;
    std::vector<std::vector<double>> differences;
    for (int p = 0; p < processes; ++p) {
      const SimulatedProcess drawn = kind.draw(random, rounds);
      differences.push_back(log_differences(drawn.base, drawn.arm));
      effects.push_back(median(differences.back()));
    }
    const Estimate shipped = mean_interval(effects);
    const Effect effect = *paired_effect(effects);
    const double student = t * effect.standard_error;
    found.shipped += shipped.excludes(kind.mean_effect) ? 0 : 1.0 / repetitions;
    found.t += std::abs(effect.value - kind.mean_effect) > student ? 0 : 1.0 / repetitions;
    width += *shipped.high - *shipped.low;
    student_width += 2 * student;
    if (bootstraps > 0) {
      const auto sign = sign_interval(effects);
      found.sign += sign && sign->low <= middle && middle <= sign->high ? 1.0 / repetitions : 0;
    }
    if (i < bootstraps) {
      const auto b = bootstrap_interval(differences, seed + static_cast<std::uint64_t>(i), 0.95, 500);
      found.bootstrap += b->low <= kind.mean_effect && kind.mean_effect <= b->high ? 1.0 / bootstraps : 0;
    }
  }
  found.widening = width / student_width;
  return found;
}

}  // namespace diptych::reports::testing
