#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"

/// The sentences that all views share. Names in them are not escaped: escape them for the medium.
namespace diptych::reports {

/// "FASTER", "INDICATIVE: faster", "INCONCLUSIVE (MDE 1.3 %)"; "-" if nothing was compared.
std::string verdict_text(const Comparison& comparison);

/// "faster", "slower", "unclear", or "" if nothing can be said; determines the colour of a verdict.
std::string verdict_tone(const Comparison& comparison);

/// "210 calls [190, 240]", "not reached" (the arm isn't faster), "not certain" (it is, but the interval leaves it
/// open), "at once" (nothing to pay back) or "-".
std::string break_even_text(const BreakEvenEntry& value);

/// One sentence for the whole run: "mlp/digits: graph is 1.41x faster than eager". For a CONTAMINATED comparison, it
/// gives the direction with its interval and says that the machine may be part of the reason.
std::string headline(const Run& run, Glyphs glyphs = Glyphs::ascii);

/// The reasons: "dispatch, tape, allocation saves 21.0 us (66 %); passes saves 11.0 us (34 %); 120 -> 98 nodes". For a
/// cell without a valid comparison, why there is none.
std::string why(const Cell& cell, Glyphs glyphs = Glyphs::ascii);

/// The time of each arm: "eager 76.3 us, replay 69.1 us, graph 67.9 us".
std::string figures_line(const Cell& cell);

/// One entry per metric name: "held-out accuracy 96.9 % (eager), 97.1 % (graph)", or "... 96.9 % in every arm".
std::vector<std::string> metric_lines(const Cell& cell, Glyphs glyphs = Glyphs::ascii);

/// "3 processes x 6 rounds, seed 1, 1 thread, numerics exact".
std::string setup_line(const Run& run, Glyphs glyphs = Glyphs::ascii);

/// Names of the arms of all cells, in the cells' order.
std::vector<std::string> arm_names(const Run& run);

/// Arms of other frameworks that dropped out: "ort is INVALID in vit/tiny, vit/b16: why", a line per arm and reason.
std::vector<std::string> failed_arms(const Run& run);

/// The limits of these figures: those of a quick run, or of BLAS kernels chosen by the environment. Usually empty.
std::vector<std::string> cautions(const Run& run);

}  // namespace diptych::reports
