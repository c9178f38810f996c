#pragma once

#include <string>

#include "reports/gate/documents.h"
#include "reports/text/table_options.h"

/// A gate document (gate.h) for readers, code hosts and CI servers.
namespace diptych::reports {

std::string render_gate(const GateDocument& gate, const TableOptions& options = {});

/// The verdict, then at most 25 rows in all, worst first; the rest is folded.
std::string render_gate_markdown(const GateDocument& gate);

/// Workflow commands of GitHub Actions, one per line: an error for each regression and vanished cell, a warning for
/// each row that can't be judged; at most ten, the last of which counts the others.
/// Source: docs.github.com, "Workflow commands for GitHub Actions".
std::string render_annotations(const GateDocument& gate);

/// JUnit XML, with one test case per row: regressions are failures, rows that can't be judged are errors, muted and
/// advisory rows are skipped. A gate that compared nothing has one test case, an error.
std::string render_junit(const GateDocument& gate);

}  // namespace diptych::reports
