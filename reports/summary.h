#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/statistics.h"

/// The sentences that all views share. They hold names as they stand in the run: escape them for the medium.
namespace diptych::reports {

/// The comparison that a cell is about: eager against "graph", else against the last arm. null when there is none.
const nlohmann::json& main_comparison(const nlohmann::json& cell);

/// The arm of that name; null when there is none.
const nlohmann::json& find_arm(const nlohmann::json& cell, const std::string& name);

/// "FASTER", "INDICATIVE: faster", "INCONCLUSIVE (MDE 1.3 %)"; "-" when nothing was compared.
std::string verdict_text(const nlohmann::json& comparison);

/// "faster", "slower", "unclear" or "" (nothing can be said): what colours a verdict.
std::string verdict_tone(const nlohmann::json& comparison);

/// "210 calls [190, 240]", "not reached", "at once" (nothing to pay back) or "-".
std::string break_even_text(const nlohmann::json& comparison);

/// One sentence for the whole run: "graph is 1.41x faster than eager on mlp/digits".
std::string headline(const nlohmann::json& run, Glyphs glyphs = Glyphs::ascii);

/// Why: "dispatch, tape, allocation saves 21.0 us (66 %); passes saves 11.0 us (34 %); 120 -> 98 nodes". For a cell
/// without a valid comparison, the reason.
std::string why(const nlohmann::json& cell, Glyphs glyphs = Glyphs::ascii);

/// The time of each arm: "eager 76.3 us, replay 69.1 us, graph 67.9 us".
std::string figures_line(const nlohmann::json& cell);

/// One entry per metric name: "held-out accuracy 96.9 % (eager), 97.1 % (graph)", or "... 96.9 % in every arm".
std::vector<std::string> metric_lines(const nlohmann::json& cell, Glyphs glyphs = Glyphs::ascii);

/// "3 processes x 6 rounds, seed 1, 1 thread, numerics exact".
std::string setup_line(const nlohmann::json& run, Glyphs glyphs = Glyphs::ascii);

/// Names of the arms of all cells, in the order in which the cells have them.
std::vector<std::string> arm_names(const nlohmann::json& run);

/// Arms of other frameworks that are out: "ort is INVALID in vit/tiny, vit/b16: why", a line for each arm and reason.
std::vector<std::string> failed_arms(const nlohmann::json& run);

/// What these figures cannot say: those of a quick run, or of BLAS kernels that the environment chose. Mostly none.
std::vector<std::string> cautions(const nlohmann::json& run);

}  // namespace diptych::reports
