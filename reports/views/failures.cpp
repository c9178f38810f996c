#include "reports/views/failures.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

struct BrokenCells {
  std::vector<std::string> names;  // shortened
  std::string first;               // as it stands in the run
  std::string detail;              // of the first
};

BrokenCells cells_with(const Run& run, Verdict verdict) {
  BrokenCells out;
  for (const Cell cell : run.cells()) {
    const Judgement judgement = cell.main_comparison().verdict();
    const bool is_invalid = !cell.validity().agree();
    if (is_invalid ? verdict != Verdict::invalid : judgement.verdict() != verdict) {
      continue;
    }
    if (out.names.empty()) {
      out.first = cell.workload();
      out.detail = is_invalid && !cell.validity().reason().empty() ? cell.validity().reason() : judgement.detail();
    }
    out.names.push_back(shorten(printable(cell.workload()), 60));
  }
  return out;
}

std::string some_names(const BrokenCells& cells) {
  const std::size_t shown = std::min<std::size_t>(cells.names.size(), 4);
  const std::string out =
      fmt::format("{}", fmt::join(cells.names.begin(), cells.names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown < cells.names.size() ? fmt::format("{} and {} more", out, cells.names.size() - shown) : out;
}

/// The command line behind the run; a new one if the run doesn't say.
std::string command_of(const Run& run) {
  std::string line;
  for (const std::string& word : run.command()) {
    line += (line.empty() ? "" : " ") + shell_word(word);
  }
  constexpr std::size_t most = 400;  // more is no command that anybody copies
  return line.empty() || line.size() > most ? "diptych run --quick" : line;
}

RunFailure incomplete(const Run& run) {
  std::size_t whole = 0;
  const double planned = run.size().processes().value_or(0);
  for (const Cell cell : run.cells()) {
    whole += static_cast<double>(cell.processes().size()) >= planned ? 1 : 0;
  }
  return {fmt::format("This run is not complete ({}): {} of its {} workloads {} all {} processes.",
                      shorten(printable(run.status()), 40), whole, run.cells().size(), whole == 1 ? "has" : "have",
                      planned),
          "What was measured holds, with the wider intervals of fewer processes; workloads that it didn't reach are "
          "missing.",
          {{"diptych run --resume .", "in this folder: measures the rest"}}};
}

}  // namespace

std::vector<RunFailure> failures_of(const Run& run) {
  std::vector<RunFailure> out;
  if (run.cells().empty()) {
    out.push_back({fmt::format("The run has no figures{}.",
                               run.status() == "complete" ? "" : ": it is " + shorten(printable(run.status()), 40)),
                   "Only the environment below holds.",
                   {{command_of(run), "the same again"}, {"diptych doctor", "whether this machine can measure"}}});
    return out;
  }
  if (run.status() != "complete") {
    out.push_back(incomplete(run));
  }
  const std::size_t all = run.cells().size();
  if (const BrokenCells cells = cells_with(run, Verdict::invalid); !cells.names.empty()) {
    const std::string word = shell_word(shorten(cells.first, 200));
    out.push_back({fmt::format("{} of {} workloads INVALID: {}: {}.", cells.names.size(), all, some_names(cells),
                               shorten(printable(cells.detail), 200)),
                   "No time or count of these may be compared between arms. The others hold.",
                   {{"diptych graph " + word + " --check-passes", "the first pass that changes a bit"},
                    {"diptych graph " + word + " --readiness", "what a capture doesn't see"}}});
  }
  if (const BrokenCells cells = cells_with(run, Verdict::contaminated); !cells.names.empty()) {
    out.push_back({fmt::format("{} of {} workloads CONTAMINATED: {}: {}.", cells.names.size(), all, some_names(cells),
                               shorten(printable(cells.detail), 200)),
                   "That the arms agree holds, and so do counts (nodes, dispatches, allocations, bytes); of times at "
                   "most the direction.",
                   {{"diptych doctor", "what takes the machine, and the remedies"},
                    {command_of(run), "again, once it is quiet"}}});
  }
  return out;
}

}  // namespace diptych::reports
