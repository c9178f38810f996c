#pragma once

#include <string>
#include <vector>

#include "framework/core/text.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/op_place.h"

/// Why graph mode is faster or slower, of one cell, as `diptych why` says it (docs/why.md). Pure functions of run.json:
/// every sentence has the figure that it rests on, and what an interval doesn't show is said to be undecided.
namespace diptych::reports {

struct Suggestion {
  std::string command;
  std::string reason;  ///< the figure that speaks for it
};

/// One part of the answer. All text is printable.
struct AnswerPart {
  std::string label;  ///< "Causes"
  std::vector<std::string> sentences = {};
  TextRows rows = {};  ///< of the ops: name, base, arm, saving, what became of it; the first row is the header
  std::vector<OpPlace> row_places = {};  ///< what the rows stand for, without the header
  std::vector<Suggestion> suggestions = {};
};

/// In order: how much, against other frameworks if there are any, causes, ops, fusion, compiling for `calls` calls,
/// limit, what to try next. Of what is missing in the run, the point says so; if the arms can't be compared, only the
/// first and the last are there.
std::vector<AnswerPart> explain(const Run& run, const Cell& cell, double calls, Glyphs glyphs = Glyphs::ascii);

/// What to try next, the most useful first: at most five.
std::vector<Suggestion> suggestions(const Run& run, const Cell& cell);

/// For a terminal: at most 24 lines of at most 120 columns; what doesn't fit is cut, with "...".
std::string render_explanation(const Run& run, const Cell& cell, double calls);
/// The same, uncut.
std::string markdown_explanation(const Run& run, const Cell& cell, double calls);

// ---- What the points are made of

/// Whether the estimate is known not to be zero: its interval is, and doesn't hold it.
bool is_told_apart(const std::optional<Estimate>& estimate);
/// "dispatch and tape", or what the rung lies between.
std::string cause_of(const Rung& rung);
/// The fused kernels that lose, and all of them.
struct FusedCounts {
  int kernels = 0, losses = 0;
};
FusedCounts fused_counts(const Cell& cell);

}  // namespace diptych::reports
