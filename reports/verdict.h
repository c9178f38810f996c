#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// What decides beside the effects: did the arms agree, was the machine quiet, how large was the run.
struct CellState {
  bool agree = false;
  std::string disagreement;  // the harness's words
  bool quick = false;
  double control_drift = 0;  // largest over processes, relative
  double steal = 0;          // largest over processes, share of the measured time
};

/// Above this share of drift or stolen time, a cell is CONTAMINATED.
inline constexpr double contamination_limit = 0.05;
/// EQUIVALENT means within this margin.
inline constexpr double equivalence_margin = 0.02;

/// {"verdict", "direction", "reason", "detail"} from one log effect per process; see analyse.h for the order.
nlohmann::json decide(std::span<const double> effects, const CellState& state);

}  // namespace diptych::reports
