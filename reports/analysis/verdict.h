#pragma once

#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// What decides a verdict besides the effects: whether the arms agreed, whether the machine was quiet, and how large
/// the run was.
struct CellState {
  bool agree = false;
  std::string disagreement;                      // in the harness's words
  std::string invalid_reason = "arms-disagree";  // or "arm-failed"
  bool quick = false;
  double control_drift = 0;      // largest over processes, relative
  double steal = 0;              // share of the timed blocks, a lower bound: of the worst process or of all together
  double steal_of_cell = 0;      // of older files: largest over processes, over all CPUs, untimed moments included
  std::optional<double> waited;  // median over processes: share of the blocks in which others had the CPU; empty:
                                 // unknown
  std::optional<double> others_load;  // likewise: share of all CPUs that other programs used meanwhile
};

/// A cell is CONTAMINATED if the drift, or the share of its time that the host or other programs took, is above this.
inline constexpr double contamination_limit = 0.05;
/// It is also CONTAMINATED if other programs, on any CPU, used more than this share of all CPUs: half a CPU of two.
inline constexpr double others_load_limit = 0.25;
/// EQUIVALENT means within this margin.
inline constexpr double equivalence_margin = 0.02;
/// FASTER and SLOWER keep the probability of any false verdict in a run below this [Holm 1979].
inline constexpr double comparison_alpha = 0.05;

/// Whether the cell, if valid, would be CONTAMINATED.
bool is_contaminated(const CellState& state);

/// {"verdict", "direction", "reason", "detail"} from one log effect per process; see analyse.h for the order. `p_holm`:
/// the comparison's p-value, adjusted over the run; empty if the run has only this comparison.
nlohmann::json decide(std::span<const double> effects, const CellState& state, std::optional<double> p_holm = {});

/// How a change between two builds is judged.
struct ChangeRule {
  double delta = 0.02;           // a change within +-ln(1 + delta) counts as none
  double alpha = 0.01;           // probability of any false REGRESSED or IMPROVED over the family
  double power = 0.9;            // of the detectable effect
  std::optional<double> p_holm;  // this cell's `change_p`, adjusted by `holm` over the family; empty: a family of one
  int family = 1;                // number of cells (times metrics) judged together; for the detectable effect
};

/// p of "the change lies within +-ln(1 + delta)", by Student's t: at levels of alpha / cells, a correction for skewness
/// costs more power than it saves false alarms, which the band already limits (docs/measurement.md). p <= alpha exactly
/// when the 1 - alpha interval doesn't reach into the band. Adjust these with `holm` over all cells that are judged
/// together.
double change_p(std::span<const double> effects, double delta);

/// The smallest slowdown, as a fraction, that would have been judged REGRESSED with probability `power`, given this
/// number of processes and this spread: the band, plus the minimum detectable effect at alpha / family. Empty for fewer
/// than two processes.
std::optional<double> detectable_change(std::span<const double> effects, const ChangeRule& rule);

/// Judges one cell of a comparison of builds; `effects`: one ln(head / base) per process, positive = slower. Returns
/// {"verdict", "reason", "detail"}, of which the first that applies counts:
///   INVALID       arms-disagree | empty (no process, or an effect that is not finite)
///   CONTAMINATED  control-drift | steal-time | load
///   INCONCLUSIVE  quick-size | too-few-processes
///   REGRESSED, IMPROVED  outside-delta: the 1 - alpha interval lies above or below the band, after Holm's correction
///   INCONCLUSIVE  holm: outside the band by itself, but not after the correction
///   EQUIVALENT    within-delta: the 90 % interval lies inside the band (two one-sided tests at 5 %)
///   INCONCLUSIVE  effect-below-mde: none of these; the detail names the detectable change
nlohmann::json decide_change(std::span<const double> effects, const ChangeRule& rule, const CellState& state);

}  // namespace diptych::reports
