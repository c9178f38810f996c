#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/table.h"

/// A gate document (gate.h) for people, code hosts and CI servers.
namespace diptych::reports {

std::string render_gate(const nlohmann::json& gate, const TableOptions& options = {});

/// Verdict first, then at most 25 rows in all, what is worst first; the rest folded.
std::string render_gate_markdown(const nlohmann::json& gate);

/// Workflow commands of GitHub Actions, one a line: an error a regression and a vanished cell, a warning a row that
/// can't be judged; at most ten, the last of which counts the others.
/// Source: docs.github.com, "Workflow commands for GitHub Actions".
std::string render_annotations(const nlohmann::json& gate);

/// JUnit XML: a test case a row; regressions are failures, what can't be judged is an error, muted and advisory rows
/// are skipped. A gate that compared nothing has one test case, an error.
std::string render_junit(const nlohmann::json& gate);

}  // namespace diptych::reports
