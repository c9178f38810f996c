#include "tests/support/speed_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/rng.h"
#include "reports/statistics/statistics.h"

namespace diptych::testing {
namespace {

constexpr double kFamilyLevel = 0.99;  ///< over all looks
constexpr double kMostAutocorrelation = 0.3;
constexpr int kAttempts = 3;
constexpr std::chrono::seconds kBetweenAttempts(3);
/// The time that later looks and further attempts may take in one process, so that a test of fifty bounds doesn't take
/// an hour next to a neighbour.
constexpr double kMostSecondsInAll = 150;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Medians of batches of `size` successive values.
std::vector<double> batch_medians(std::span<const double> values, std::size_t size) {
  std::vector<double> result;
  for (std::size_t i = 0; i + size <= values.size(); i += size) {
    result.push_back(reports::median(values.subspan(i, size)));
  }
  return result;
}

double autocorrelation(const std::vector<double>& values) {
  return reports::round_autocorrelation(std::span(&values, 1)).value_or(0);
}

double figure_of(const SpeedBound& bound, std::span<const double> round) {
  return bound.figure ? bound.figure(round) : round[0] / round[1];
}

std::string describe(const SpeedBound& bound, const Judgement& j, std::size_t rounds, const MeasuringOptions& options) {
  return fmt::format("{}: {:.4g} [{:.4g}, {:.4g}] {}, {} {:.4g}; {} rounds, seed {}", bound.what,
                     bound.scale * j.estimate, bound.scale * j.low, bound.scale * j.high, bound.unit,
                     bound.side == Side::at_most ? "at most" : "at least", bound.scale * bound.limit, rounds,
                     options.seed);
}

std::string reason(Decision decision, const Judgement& j, const MachineState& machine) {
  if (decision != Decision::skip) {
    return fmt::format(" ({})", machine.text());
  }
  if (!machine.is_quiet()) {
    return ": can't tell, the machine was not quiet: " + machine.text();
  }
  return fmt::format(": can't tell{} on a quiet machine ({})",
                     j.answer == Answer::cannot_tell ? " it from its bound" : "", machine.text());
}

/// Skips and failures end the function that they are in, which is this one.
void report(Decision decision, const std::string& text) {
  if (decision == Decision::fail) {
    ADD_FAILURE() << text;
  } else if (decision != Decision::pass) {
    GTEST_SKIP() << text;
  }
}

double slowdown_on_purpose() {
  const char* text = std::getenv("DIPTYCH_TEST_SLOWDOWN");
  return text != nullptr ? std::strtod(text, nullptr) : 0;
}

}  // namespace

Answer answer_of(double low, double high, double bound, Side side) {
  const bool at_most = side == Side::at_most;
  if (at_most ? low > bound : high < bound) {
    return Answer::beyond;
  }
  return (at_most ? high <= bound : low >= bound) ? Answer::within : Answer::cannot_tell;
}

Judgement judge(std::span<const double> figures, double bound, Side side) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Judgement result{Answer::cannot_tell, reports::median(figures), -kInfinity, kInfinity};
  std::vector<double> batches(figures.begin(), figures.end());
  std::size_t size = 1;
  while (autocorrelation(batches) > kMostAutocorrelation && figures.size() / (2 * size) >= kLooks.front()) {
    size *= 2;
    batches = batch_medians(figures, size);
  }
  auto interval = reports::sign_interval(batches, 1 - (1 - kFamilyLevel) / kLooks.size());
  if (!interval) {
    return result;
  }
  if (autocorrelation(batches) > kMostAutocorrelation) {
    const auto [least, most] = std::minmax_element(batches.begin(), batches.end());
    interval = {*least - (*most - *least), *most + (*most - *least)};
  }
  return {answer_of(interval->low, interval->high, bound, side), result.estimate, interval->low, interval->high};
}

Decision decide(Answer answer, const MachineState& machine, bool is_last_attempt) {
  if (answer == Answer::within) {
    return Decision::pass;
  }
  if (answer == Answer::cannot_tell) {
    return Decision::skip;
  }
  if (!is_last_attempt) {
    return Decision::again;
  }
  return machine.is_quiet() ? Decision::fail : Decision::skip;
}

InterleavedRounds::InterleavedRounds(std::vector<Block> contenders, std::vector<SpeedBound> broken,
                                     const MeasuringOptions& options)
    : contenders_(std::move(contenders)),
      broken_(std::move(broken)),
      latest_(contenders_.size()),
      order_(contenders_.size()),
      random_(options.seed),
      calls_(std::max(1, options.calls)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  for (const Block& contender : contenders_) {
    contender(calls_);  // warm-up
  }
  for (int attempt = 0; attempt < 5; ++attempt) {
    double fastest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      const double seconds = contenders_[i](calls_);
      latest_[i] = seconds / calls_;
      fastest = std::min(fastest, seconds);
    }
    if (options.calls > 0 || fastest > options.block_seconds / 2) {
      break;
    }
    const double factor = options.block_seconds / std::max(fastest, 1e-7);
    calls_ = static_cast<int>(std::clamp(calls_ * factor, calls_ + 1.0, 1e7));
  }
  slowdown_ = slowdown_on_purpose();
}

double InterleavedRounds::time_block(std::size_t contender) {
  double seconds = contenders_[contender](calls_);
  for (const SpeedBound& bound : broken_) {
    if (slowdown_ <= 0 || bound.measured != contender) {
      continue;
    }
    // Figures are linear in the time of the contender that they are about; this is the time at which the figure exceeds
    // its bound by this much.
    std::vector<double> round = latest_;
    round[contender] = 0;
    const double none = figure_of(bound, round);
    round[contender] = 1;
    const double target = calls_ * (slowdown_ * bound.limit - none) / (figure_of(bound, round) - none);
    for (const double start = now_seconds() - seconds; seconds < target;) {
      seconds = now_seconds() - start;
    }
  }
  return latest_[contender] = seconds / calls_;
}

std::vector<double> InterleavedRounds::operator()() {
  if (round_++ % 2 == 0) {
    Rng rng(random_++);
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[rng.below(i)]);
    }
  } else {
    std::reverse(order_.begin(), order_.end());
  }
  std::vector<double> seconds(contenders_.size());
  for (const std::size_t i : order_) {
    seconds[i] = time_block(i);
  }
  return seconds;
}

std::vector<SpeedVerdict> measure(const Round& first, const std::vector<SpeedBound>& bounds,
                                  const MeasuringOptions& options) {
  static double seconds_left = kMostSecondsInAll;
  Round round = first;
  std::vector<SpeedVerdict> verdicts(bounds.size());  // of an earlier attempt, only those that said `again` change
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) {
      const double start = now_seconds();
      std::this_thread::sleep_for(kBetweenAttempts);
      if (options.make_again) {
        round = options.make_again();
      }
      seconds_left -= now_seconds() - start;
    }
    MachineWatch watch(options.own_seconds);
    std::vector<std::vector<double>> figures(bounds.size());
    std::vector<Judgement> judgements(bounds.size());
    double longer = 0;  // seconds of looks after the first
    double a_round = 0;
    std::size_t rounds = 0;
    for (const std::size_t look : kLooks) {
      const double expected = static_cast<double>(look - rounds) * a_round;
      if (rounds > 0 && (longer + expected > options.most_seconds || expected > seconds_left)) {
        break;
      }
      const double start = now_seconds();
      const std::size_t before = rounds;
      for (; rounds < look; ++rounds) {
        watch.sample_core();
        const std::vector<double> values = round();
        for (std::size_t i = 0; i < bounds.size(); ++i) {
          figures[i].push_back(figure_of(bounds[i], values));
        }
      }
      const double passed = now_seconds() - start;
      a_round = passed / static_cast<double>(rounds - before);
      longer += before > 0 ? passed : 0;
      seconds_left -= before > 0 || attempt > 0 ? passed : 0;
      bool told = true;
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        // A verdict stays: further looks for another bound don't count for this one.
        if (judgements[i].answer == Answer::cannot_tell) {
          judgements[i] = judge(figures[i], bounds[i].limit, bounds[i].side);
        }
        told = told && judgements[i].answer != Answer::cannot_tell;
      }
      if (told) {
        break;
      }
    }
    const MachineState machine = watch.state();
    bool again = false;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      if (attempt > 0 && verdicts[i].decision != Decision::again) {
        continue;
      }
      // Twelve rounds beyond a bound are repeated once, though the process has used up its time.
      const bool is_last = attempt + 1 == kAttempts || (attempt > 0 && seconds_left <= 0);
      const Decision decision = decide(judgements[i].answer, machine, is_last);
      verdicts[i] = {
          decision, judgements[i],
          describe(bounds[i], judgements[i], figures[i].size(), options) + reason(decision, judgements[i], machine)};
      again = again || decision == Decision::again;
    }
    if (!again) {
      break;
    }
  }
  return verdicts;
}

void expect_bounds(const Round& round, const std::vector<SpeedBound>& bounds, const MeasuringOptions& options) {
  for (const SpeedVerdict& verdict : measure(round, bounds, options)) {
    fmt::print("{}\n", verdict.text);
    report(verdict.decision, verdict.text);
  }
}

void expect_bounds(const std::vector<Block>& contenders, const std::vector<SpeedBound>& bounds,
                   const MeasuringOptions& options) {
  expect_bounds(InterleavedRounds(contenders, bounds, options), bounds, options);
}

void expect_bounds(const MakeContenders& make, const std::vector<SpeedBound>& bounds, MeasuringOptions options) {
  const auto rounds = [&] { return InterleavedRounds(make(), bounds, options); };
  const InterleavedRounds first = rounds();
  options.make_again = rounds;
  expect_bounds(first, bounds, options);
}

void expect_ratio(const std::string& what, double limit, const Block& measured, const Block& other,
                  const std::string& unit, const MeasuringOptions& options) {
  expect_bounds({measured, other}, {{.what = what, .limit = limit, .unit = unit}}, options);
}

void expect_told(const std::string& what, const Judgement& judgement, const MachineState& machine) {
  const Decision decision = decide(judgement.answer, machine, true);
  report(decision, fmt::format("{}: {:.4g} [{:.4g}, {:.4g}]{}", what, judgement.estimate, judgement.low, judgement.high,
                               reason(decision, judgement, machine)));
}

void expect_passed(double seconds, double most, const MachineState& machine) {
  report(decide(seconds < most ? Answer::within : Answer::beyond, machine, true),
         fmt::format("it took {:.2f} s, not below {:.2f} s; {}", seconds, most, machine.text()));
}

}  // namespace diptych::testing
