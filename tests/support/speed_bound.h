#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/machine_watch.h"

/// Tests of speed as docs/measurement.md requires them: contenders in interleaved rounds, an interval for a figure of
/// the rounds, and a verdict from the whole interval. A test passes if the interval lies within its bound. If it lies
/// beyond, the test is repeated, twice at most and on other memory if it can be, and fails if it always lies beyond and
/// the machine was quiet the last time. If it can't tell, it is measured for longer, and then skipped with the interval
/// and the machine's state.
///
/// The interval is the sign interval of the rounds (reports/statistics/statistics.h): it covers the median, whatever
/// the distribution, and what happens to a tenth of the rounds doesn't move it. It requires independent rounds. If
/// their lag-1 autocorrelation is above 0.3, they are replaced by medians of ever longer batches of rounds until it
/// isn't [Law & Carson, A sequential procedure for determining the length of a steady-state simulation, Operations
/// Research 27, 1979]; if that leaves fewer than twelve, the interval is their whole range, extended by its width on
/// either side, which decides figures far from their bound. There are four looks, fixed in advance, each at a level of
/// 99.75 %: over all of them, for independent rounds, either side is missed with a probability of at most 0.5 %
/// [Bonferroni]. speed_bound_test.cpp has the rates for other kinds of data.
namespace diptych::testing {

/// The numbers of rounds after which a verdict is attempted.
inline constexpr std::array<std::size_t, 4> kLooks = {12, 24, 48, 96};

enum class Answer { within, beyond, cannot_tell };
enum class Side { at_most, at_least };

struct Judgement {
  Answer answer = Answer::cannot_tell;
  double estimate = 0;       ///< the median
  double low = 0, high = 0;  ///< the whole line if there is no interval
};

/// An interval against a bound.
Answer answer_of(double low, double high, double bound, Side side = Side::at_most);
/// Judges a figure of each round, in order, against a bound: one of the looks at a series.
Judgement judge(std::span<const double> figures, double bound, Side side = Side::at_most);

/// The outcome of the test. `again`: once more, later.
enum class Decision { pass, fail, again, skip };
Decision decide(Answer answer, const MachineState& machine, bool is_last_attempt);

struct SpeedBound {
  std::string what;
  double limit = 1;
  /// Computed from one round: seconds per call of each contender. Default: the first divided by the second.
  std::function<double(std::span<const double>)> figure = {};
  std::string unit = "of the other's time";
  double scale = 1;  ///< of the figure when it is printed
  Side side = Side::at_most;
  std::size_t measured = 0;  ///< the contender that DIPTYCH_TEST_SLOWDOWN slows down
};

struct SpeedVerdict {
  Decision decision = Decision::skip;
  Judgement judgement;
  std::string text;  ///< the figure, its interval, its bound, and why it couldn't be decided
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

/// Returns seconds per call of each contender.
using Round = std::function<std::vector<double>()>;

struct MeasuringOptions {
  double block_seconds = 0.01;  ///< minimum, of the fastest contender; the others make the same number of calls
  int calls = 0;                ///< per block, if it isn't to be determined
  double most_seconds = 20;     ///< for looks after the first
  std::uint64_t seed = 1;       ///< of the orders
  std::function<double()> own_seconds = cpu_seconds_with_children;
  std::function<Round()> make_again = {};  ///< rounds for each further attempt; default: those of the first
};

/// Each call is a round: a block of every contender, in a random order that every second round reverses (ABBA).
/// DIPTYCH_TEST_SLOWDOWN=1.1 breaks a bound on purpose: the measured contender spins until its figure is 10 % beyond
/// it.
class InterleavedRounds {
 public:
  explicit InterleavedRounds(std::vector<Block> contenders, std::vector<SpeedBound> broken = {},
                             const MeasuringOptions& options = {});
  /// Seconds per call of each contender.
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

/// Runs rounds until each bound is decided or the looks are over. All bounds share the rounds.
std::vector<SpeedVerdict> measure(const Round& round, const std::vector<SpeedBound>& bounds,
                                  const MeasuringOptions& options = {});

// These report to GoogleTest: a failure, or a skip with the reason. Neither ends the calling function.

void expect_bounds(const Round& round, const std::vector<SpeedBound>& bounds, const MeasuringOptions& options = {});
void expect_bounds(const std::vector<Block>& contenders, const std::vector<SpeedBound>& bounds,
                   const MeasuringOptions& options = {});
/// Contenders that are made anew for further attempts, while the first ones still exist: elsewhere in memory. Where
/// tensors happen to lie is worth several percent, which no number of rounds averages out.
using MakeContenders = std::function<std::vector<Block>()>;
void expect_bounds(const MakeContenders& make, const std::vector<SpeedBound>& bounds, MeasuringOptions options = {});
/// The time of the first divided by that of the second, at most `limit`.
void expect_ratio(const std::string& what, double limit, const Block& measured, const Block& other,
                  const std::string& unit, const MeasuringOptions& options = {});
/// For a judgement that a program made with its own interval, or that `judge` made of its rounds.
void expect_told(const std::string& what, const Judgement& judgement, const MachineState& machine);
/// The elapsed `seconds` must be below `most`; beyond that, a machine that wasn't quiet is a reason to skip.
void expect_passed(double seconds, double most, const MachineState& machine);

}  // namespace diptych::testing
