#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

struct TableOptions {
  bool colour = false;  ///< ANSI colours: orange and blue, never red and green
  int width = 140;      ///< columns of the terminal
};

/// The run as a terminal table: a row per cell, then why, then its metrics. Chooses the widest form that fits: times
/// with intervals, times with a relative spread, or one block per cell.
std::string render_table(const nlohmann::json& run, const TableOptions& options = {});

}  // namespace diptych::reports
