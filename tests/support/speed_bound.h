#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/machine_watch.h"

/// Tests of speed as docs/measurement.md wants them: contenders in interleaved rounds, an interval for a figure of the
/// rounds, and a verdict from the whole interval. It fails where the interval lies beyond its bound and the machine was
/// quiet, passes where it lies within, and is measured longer, then skipped with the interval and the machine's state,
/// where it can't tell.
///
/// The interval is the sign interval of the rounds (reports/statistics.h): it covers the median, whatever the
/// distribution, and what happens to a tenth of the rounds doesn't move it. It asks for independent rounds. Where their
/// lag-1 autocorrelation is above 0.3, medians of ever longer batches of rounds stand for them until it isn't [Law &
/// Carson, A sequential procedure for determining the length of a steady-state simulation, Operations Research 27,
/// 1979]; where that leaves fewer than twelve, the interval is their whole range with as much again on either side,
/// which tells what lies far from its bound. There are four looks, fixed in advance, each at a level of 99.75 %: over
/// all of them, of rounds that are independent, either side is missed with a probability of 0.5 % at most [Bonferroni].
/// speed_bound_test.cpp has the rates for data of other kinds.
namespace diptych::testing {

/// Rounds at which the verdict is looked for.
inline constexpr std::array<std::size_t, 4> kLooks = {12, 24, 48, 96};

enum class Answer { within, beyond, cannot_tell };
enum class Side { at_most, at_least };

struct Judgement {
  Answer answer = Answer::cannot_tell;
  double estimate = 0;       ///< the median
  double low = 0, high = 0;  ///< the whole line where there is no interval
};

/// An interval against a bound.
Answer answer_of(double low, double high, double bound, Side side = Side::at_most);
/// A figure of each round, in their order, against a bound: one of the looks at a series.
Judgement judge(std::span<const double> figures, double bound, Side side = Side::at_most);

/// What becomes of the test. `again`: once more, later.
enum class Decision { pass, fail, again, skip };
Decision decide(Answer answer, const MachineState& machine, bool is_last_attempt);

struct SpeedBound {
  std::string what;
  double limit = 1;
  /// Of what one round gave: seconds a call of each contender. Without: of the first by the second.
  std::function<double(std::span<const double>)> figure = {};
  std::string unit = "of the other's time";
  double scale = 1;  ///< of the figure, where it is printed
  Side side = Side::at_most;
  std::size_t measured = 0;  ///< the contender that DIPTYCH_TEST_SLOWDOWN slows down
};

struct SpeedVerdict {
  Decision decision = Decision::skip;
  Judgement judgement;
  std::string text;  ///< the figure, its interval, its bound, and why it couldn't be told
};

/// Seconds of `count` calls, one after the other.
using Block = std::function<double(int count)>;

/// Seconds of `count` calls of `call`.
template <class Call>
double seconds_of(int count, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    call();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
template <class Call>
Block block_of(Call call) {
  return [call = std::move(call)](int count) mutable { return seconds_of(count, call); };
}

struct MeasuringOptions {
  double block_seconds = 0.01;  ///< of the fastest contender, at least; the others make as many calls
  int calls = 0;                ///< of a block, where it isn't to be found out
  double most_seconds = 20;     ///< for looks behind the first
  std::uint64_t seed = 1;       ///< of the orders
  std::function<double()> own_seconds = cpu_seconds_with_children;
};

/// Each call is a round: a block of every contender, in a random order that every second round reverses (ABBA).
/// DIPTYCH_TEST_SLOWDOWN=1.1 breaks a bound on purpose: the measured contender spins until its figure is 10 % beyond.
class InterleavedRounds {
 public:
  explicit InterleavedRounds(std::vector<Block> contenders, std::vector<SpeedBound> broken = {},
                             const MeasuringOptions& options = {});
  /// Seconds a call of each contender.
  std::vector<double> operator()();
  int calls() const { return calls_; }

 private:
  double time_block(std::size_t contender);

  std::vector<Block> contenders_;
  std::vector<SpeedBound> broken_;
  std::vector<double> latest_;
  std::vector<std::size_t> order_;
  std::uint64_t random_;
  int calls_ = 1;
  int round_ = 0;
  double slowdown_ = 0;
};

/// Rounds until each bound is told or the looks are over. All bounds share the rounds.
std::vector<SpeedVerdict> measure(const std::function<std::vector<double>()>& round,
                                  const std::vector<SpeedBound>& bounds, const MeasuringOptions& options = {});

// As tests of GoogleTest: a failure, or a skip with the reason. Neither ends the function that calls.

void expect_bounds(const std::function<std::vector<double>()>& round, const std::vector<SpeedBound>& bounds,
                   const MeasuringOptions& options = {});
void expect_bounds(const std::vector<Block>& contenders, const std::vector<SpeedBound>& bounds,
                   const MeasuringOptions& options = {});
/// Time of the first by that of the second, at most `limit`.
void expect_ratio(const std::string& what, double limit, const Block& measured, const Block& other,
                  const std::string& unit, const MeasuringOptions& options = {});
/// What a program said with an interval of its own, or `judge` of its rounds.
void expect_told(const std::string& what, const Judgement& judgement, const MachineState& machine);
/// `seconds` that passed lie below `most`; beyond it, a machine that wasn't quiet is a reason to skip.
void expect_passed(double seconds, double most, const MachineState& machine);

}  // namespace diptych::testing
