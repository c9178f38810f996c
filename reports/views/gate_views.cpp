#include "reports/views/gate_views.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "reports/run/verdicts.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/advisory_views.h"
#include "reports/views/compare_views.h"

namespace diptych::reports {
namespace {

constexpr std::size_t most_gate_rows = 25;
constexpr std::size_t most_advisory = 5;
constexpr std::size_t most_annotations = 10;

/// Deciding rows before the others, the worst first in each group.
std::vector<ComparisonRow> ordered(const GateDocument& gate) {
  std::vector<ComparisonRow> rows = rows_by_severity(gate.rows());
  std::stable_partition(rows.begin(), rows.end(), [](const ComparisonRow& row) { return row.decides(); });
  return rows;
}

std::string verdict_word(const ComparisonRow& row) {
  std::string out = row.verdict_name();
  if (row.screened() == Verdict::regressed && row.confirmed() == Verdict::regressed) {
    out += " (twice)";
  }
  if (!row.decides()) {
    out += " (" + row.role() + ")";
  }
  return out;
}

std::string why(const ComparisonRow& row) {
  std::string out = row.detail();
  if (const MuteEntry mute = row.mute()) {
    out += fmt::format("{}muted until {}: {}", out.empty() ? "" : "; ", mute.until(), mute.reason());
  }
  return out;
}

/// Nothing to look at: it is the same, or doesn't matter.
bool is_quiet(const ComparisonRow& row) { return row.verdict() == Verdict::equivalent || !row.decides(); }

std::string stage_line(const GateDocument& gate) {
  const Stages stages = gate.stages();
  std::string out = fmt::format("{} rows screened", stages.screened().value_or(0));
  if (stages.measured_again()) {
    out += fmt::format(", {} flagged and measured again in fresh processes, {} confirmed", stages.flagged().value_or(0),
                       stages.confirmed().value_or(0));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> cell_lists(const GateDocument& gate) {
  return name_lists({{"New in head", gate.new_cells()},
                     {"Vanished from head", gate.vanished()},
                     {"Vanished from head, as the configuration says", gate.vanished_as_expected()}});
}

// ---- GitHub

std::string escape_data(const std::string& value) {
  std::string out;
  for (const char c : value) {
    out += c == '%' ? "%25" : c == '\r' ? "%0D" : c == '\n' ? "%0A" : std::string(1, c);
  }
  return out;
}

std::string escape_property(const std::string& value) {
  std::string out;
  for (const char c : escape_data(value)) {
    out += c == ':' ? "%3A" : c == ',' ? "%2C" : std::string(1, c);
  }
  return out;
}

std::string annotation(const char* level, const std::string& title, const std::string& message) {
  return fmt::format("::{} title={}::{}\n", level, escape_property(printable(title)), escape_data(printable(message)));
}

// ---- JUnit

std::string test_case(const std::string& group, const std::string& name, const std::string& inside) {
  const std::string head =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\"", escape_xml(group), escape_xml(name));
  return inside.empty() ? head + "/>\n" : fmt::format("{}>\n      {}\n    </testcase>\n", head, inside);
}

std::string outcome(const char* element, const std::string& message, const std::string& body = "") {
  return body.empty()
             ? fmt::format("<{} message=\"{}\"/>", element, escape_xml(message))
             : fmt::format("<{} message=\"{}\">{}</{}>", element, escape_xml(message), escape_xml(body), element);
}

}  // namespace

std::string render_gate(const GateDocument& gate, const TableOptions& options) {
  std::string out = fmt::format("{}: {}\n", gate.verdict_name(), printable(gate.reason()));
  out += fmt::format("base {}\nhead {}\n", printable(gate.base()), printable(gate.head()));
  out += fmt::format("{}; {}\n", stage_line(gate), count_line(gate.summary()));
  if (const std::string note = gate.time_note(); !note.empty()) {
    out += "time: " + printable(note) + "\n";
  }
  for (const std::string& note : gate.notes().all()) {
    out += "note: " + printable(note) + "\n";
  }
  TextTable table({"cell", "metric", "base -> head", "change", "verdict"});
  std::size_t same = 0;
  const std::vector<ComparisonRow> rows = ordered(gate);
  for (const ComparisonRow& row : rows) {
    if (row.verdict() == Verdict::equivalent && row.decides()) {
      ++same;
    } else {
      table.add(row_fields(row, verdict_word(row)), row.decides() ? row_tone(row) : "dim");
    }
  }
  if (!table.empty()) {
    out += "\n" + table.render(options.colour, options.width);
  }
  for (const std::string& reason : reasons_of_the_undecided(rows)) {
    out += printable(reason) + "\n";
  }
  if (same > 0) {
    out += fmt::format("{} deciding rows are EQUIVALENT.\n", same);
  }
  for (const auto& [word, names] : cell_lists(gate)) {
    out += fmt::format("{}: {}\n", word, printable(names));
  }
  return out;
}

std::string render_gate_markdown(const GateDocument& gate) {
  std::string out = fmt::format("## Performance gate: {}\n\n{}\n\n", escape_markdown(gate.verdict_name()),
                                escape_markdown(gate.reason()));
  for (const auto& [word, names] : cell_lists(gate)) {
    out += fmt::format("- {}: {}\n", word, escape_markdown(shorten(printable(names), 2000)));
  }
  const std::vector<ComparisonRow> rows = ordered(gate);
  std::size_t shown = 0;
  std::string first;
  std::string folded;
  // Some of the rows are reserved for advisory ones, unless those that matter fill the table.
  const auto loud = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), std::not_fn(is_quiet)));
  const std::size_t advisory =
      std::min({most_advisory, gate.advisory().size(), most_gate_rows - std::min(loud, most_gate_rows)});
  for (const ComparisonRow& row : rows) {
    if (shown == most_gate_rows - advisory) {
      break;
    }
    (is_quiet(row) ? folded : first) +=
        fmt::format("{} {} | {} |\n", row_markdown(row), escape_markdown(verdict_word(row)),
                    escape_markdown(shorten(printable(why(row)), 300)));
    ++shown;
  }
  const std::string header = "| cell | metric | base -> head | change | verdict | why |\n|---|---|---|---|---|---|\n";
  if (!first.empty()) {
    out += "\n" + header + first;
  }
  out += "\n<details><summary>" + escape_markdown(count_line(gate.summary())) + "</summary>\n\n";
  if (!folded.empty()) {
    out += header + folded + "\n";
  }
  if (rows.size() > shown) {
    out += fmt::format("and {} more rows: gate.json has all\n\n", rows.size() - shown);
  }
  if (const std::string table = markdown_advisory(gate, advisory); !table.empty()) {
    out += table + "\n";
  }
  out += fmt::format("Base: {}\n\nHead: {}\n\n{}\n\n", escape_markdown(gate.base()), escape_markdown(gate.head()),
                     escape_markdown(stage_line(gate)));
  if (const std::string note = gate.time_note(); !note.empty()) {
    out += "- time: " + escape_markdown(note) + "\n";
  }
  for (const std::string& note : gate.notes().all()) {
    out += "- " + escape_markdown(note) + "\n";
  }
  return out + "\n" + fingerprint_markdown(gate.environment()) + "\n</details>\n";
}

std::string render_annotations(const GateDocument& gate) {
  std::vector<std::string> lines;
  for (const ComparisonRow& row : ordered(gate)) {
    const std::optional<Verdict> verdict = row.verdict();
    const std::string subject = row.subject() + " " + row.metric();
    const std::string message = fmt::format("{}: {} ({}); {}", subject, row_values(row), row_change(row), why(row));
    if (row.decides() && verdict == Verdict::regressed) {
      lines.push_back(annotation("error", "Regression: " + subject, message));
    } else if (row.decides() && is_unusable(verdict)) {
      lines.push_back(annotation("warning", row.verdict_name() + ": " + subject, message));
    }
  }
  for (const std::string& cell : gate.vanished().all()) {
    lines.push_back(annotation("error", "Vanished: " + cell, cell + " is no longer measured"));
  }
  if (lines.empty() && !gate.has_passed()) {
    lines.push_back(annotation("error", "Performance gate: " + gate.verdict_name(), gate.reason()));
  }
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 == most_annotations && lines.size() > most_annotations) {
      return out +
             annotation("error", "Performance gate", fmt::format("and {} more; gate.json has all", lines.size() - i));
    }
    out += lines[i];
  }
  return out;
}

std::string render_junit(const GateDocument& gate) {
  std::string cases;
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  const auto add = [&](const std::string& group, const std::string& name, const std::string& inside, int* count) {
    cases += test_case(group, name, inside);
    ++tests;
    *(count == nullptr ? &tests : count) += count == nullptr ? 0 : 1;
  };
  for (const ComparisonRow row : gate.rows()) {
    const std::optional<Verdict> verdict = row.verdict();
    const std::string message = fmt::format("{} ({}): {}", row.verdict_name(), row_change(row), why(row));
    const std::string subject = row.subject();
    const std::string name = row.metric();
    if (!row.decides()) {
      add(subject, name, outcome("skipped", fmt::format("{}: {}", row.role(), message)), &skipped);
    } else if (verdict == Verdict::regressed) {
      add(subject, name, outcome("failure", message, row_values(row)), &failures);
    } else if (is_unusable(verdict)) {
      add(subject, name, outcome("error", message), &errors);
    } else {
      add(subject, name, "", nullptr);
    }
  }
  for (const std::string& cell : gate.vanished().all()) {
    add(cell, "vanished", outcome("error", "no longer measured"), &errors);
  }
  if (tests == 0) {
    const bool pass = gate.has_passed();
    add("gate", "compared", pass ? "" : outcome("error", gate.reason()), pass ? nullptr : &errors);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"diptych gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}"
      "  </testsuite>\n</testsuites>\n",
      tests, failures, errors, skipped, cases);
}

}  // namespace diptych::reports
