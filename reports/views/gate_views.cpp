#include "reports/views/gate_views.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "reports/gate/advisory.h"
#include "reports/gate/compare.h"
#include "reports/run/json_access.h"
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

bool decides(const Json& row) { return text(row, "role") == "deciding"; }

/// Deciding rows before the others, the worst first in each group.
std::vector<Json> ordered(const Json& gate) {
  std::vector<Json> rows = rows_by_severity(list(gate, "rows"));
  std::stable_partition(rows.begin(), rows.end(), decides);
  return rows;
}

std::string verdict_word(const Json& row) {
  std::string out = text(row, "verdict");
  if (verdict_from(text(row, "screened")) == Verdict::regressed &&
      verdict_from(text(row, "confirmed")) == Verdict::regressed) {
    out += " (twice)";
  }
  if (!decides(row)) {
    out += " (" + text(row, "role") + ")";
  }
  return out;
}

std::string why(const Json& row) {
  std::string out = text(row, "detail");
  if (const Json& mute = member(row, "mute"); mute.is_object()) {
    out += fmt::format("{}muted until {}: {}", out.empty() ? "" : "; ", text(mute, "until"), text(mute, "reason"));
  }
  return out;
}

std::string names_of(const Json& names) {
  std::string out;
  for (const Json& name : names) {
    out += (out.empty() ? "" : ", ") + (name.is_string() ? name.get<std::string>() : std::string());
  }
  return out;
}

std::string stage_line(const Json& gate) {
  const Json& stages = member(gate, "stages");
  const double flagged = number(stages, "flagged").value_or(0);
  std::string out = fmt::format("{} rows screened", number(stages, "screened").value_or(0));
  if (member(stages, "measured_again") == true) {
    out += fmt::format(", {} flagged and measured again in fresh processes, {} confirmed", flagged,
                       number(stages, "confirmed").value_or(0));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> cell_lists(const Json& gate) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, word] : {std::pair("new", "New in head"), std::pair("vanished", "Vanished from head"),
                                  std::pair("vanished_as_expected", "Vanished from head, as the configuration says")}) {
    if (const Json& names = list(gate, key); !names.empty()) {
      out.emplace_back(word, names_of(names));
    }
  }
  return out;
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

std::string render_gate(const Json& gate, const TableOptions& options) {
  std::string out = fmt::format("{}: {}\n", text(gate, "verdict"), printable(text(gate, "reason")));
  out += fmt::format("base {}\nhead {}\n", printable(text(gate, "base")), printable(text(gate, "head")));
  out += fmt::format("{}; {}\n", stage_line(gate), count_line(member(gate, "summary")));
  if (const std::string note = text(member(gate, "time"), "note"); !note.empty()) {
    out += "time: " + printable(note) + "\n";
  }
  for (const Json& note : list(gate, "notes")) {
    out += "note: " + printable(note.get<std::string>()) + "\n";
  }
  TextTable table({"cell", "metric", "base -> head", "change", "verdict"});
  std::size_t same = 0;
  for (const Json& row : ordered(gate)) {
    if (verdict_of(row) == Verdict::equivalent && decides(row)) {
      ++same;
      continue;
    }
    table.add({shorten(printable(row_subject(row)), 44), text(row, "metric"), row_values(row), row_change(row),
               verdict_word(row)},
              decides(row) ? row_tone(row) : "dim");
  }
  if (!table.empty()) {
    out += "\n" + table.render(options.colour, options.width);
  }
  if (same > 0) {
    out += fmt::format("{} deciding rows are EQUIVALENT.\n", same);
  }
  for (const auto& [word, names] : cell_lists(gate)) {
    out += fmt::format("{}: {}\n", word, printable(names));
  }
  return out;
}

std::string render_gate_markdown(const Json& gate) {
  std::string out = fmt::format("## Performance gate: {}\n\n{}\n\n", escape_markdown(text(gate, "verdict")),
                                escape_markdown(text(gate, "reason")));
  for (const auto& [word, names] : cell_lists(gate)) {
    out += fmt::format("- {}: {}\n", word, escape_markdown(shorten(printable(names), 2000)));
  }
  const std::vector<Json> rows = ordered(gate);
  const auto quiet = [](const Json& row) { return verdict_of(row) == Verdict::equivalent || !decides(row); };
  std::size_t shown = 0;
  std::string first;
  std::string folded;
  // Some of the rows are reserved for advisory ones, unless those that matter fill the table.
  const auto loud = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), std::not_fn(quiet)));
  const std::size_t advisory =
      std::min({most_advisory, list(gate, "advisory").size(), most_gate_rows - std::min(loud, most_gate_rows)});
  for (const Json& row : rows) {
    if (shown == most_gate_rows - advisory) {
      break;
    }
    const std::string line = fmt::format(
        "| {} | {} | {} | {} | {} | {} |\n", escape_markdown(shorten(printable(row_subject(row)), 100)),
        escape_markdown(text(row, "metric")), escape_markdown(row_values(row)), escape_markdown(row_change(row)),
        escape_markdown(verdict_word(row)), escape_markdown(shorten(printable(why(row)), 300)));
    (quiet(row) ? folded : first) += line;
    ++shown;
  }
  const std::string header = "| cell | metric | base -> head | change | verdict | why |\n|---|---|---|---|---|---|\n";
  if (!first.empty()) {
    out += "\n" + header + first;
  }
  out += "\n<details><summary>" + escape_markdown(count_line(member(gate, "summary"))) + "</summary>\n\n";
  if (!folded.empty()) {
    out += header + folded + "\n";
  }
  if (rows.size() > shown) {
    out += fmt::format("and {} more rows: gate.json has all\n\n", rows.size() - shown);
  }
  if (const std::string table = markdown_advisory(gate, advisory); !table.empty()) {
    out += table + "\n";
  }
  out += fmt::format("Base: {}\n\nHead: {}\n\n{}\n\n", escape_markdown(text(gate, "base")),
                     escape_markdown(text(gate, "head")), escape_markdown(stage_line(gate)));
  if (const std::string note = text(member(gate, "time"), "note"); !note.empty()) {
    out += "- time: " + escape_markdown(note) + "\n";
  }
  for (const Json& note : list(gate, "notes")) {
    out += "- " + escape_markdown(note.get<std::string>()) + "\n";
  }
  return out + "\n" + fingerprint_markdown(list(gate, "environment")) + "\n</details>\n";
}

std::string render_annotations(const Json& gate) {
  std::vector<std::string> lines;
  for (const Json& row : ordered(gate)) {
    const std::optional<Verdict> verdict = verdict_of(row);
    const std::string subject = row_subject(row) + " " + text(row, "metric");
    const std::string message = fmt::format("{}: {} ({}); {}", subject, row_values(row), row_change(row), why(row));
    if (decides(row) && verdict == Verdict::regressed) {
      lines.push_back(annotation("error", "Regression: " + subject, message));
    } else if (decides(row) && is_unusable(verdict)) {
      lines.push_back(annotation("warning", text(row, "verdict") + ": " + subject, message));
    }
  }
  for (const Json& name : list(gate, "vanished")) {
    const std::string cell = name.get<std::string>();
    lines.push_back(annotation("error", "Vanished: " + cell, cell + " is no longer measured"));
  }
  if (lines.empty() && text(gate, "verdict") != "PASS") {
    lines.push_back(annotation("error", "Performance gate: " + text(gate, "verdict"), text(gate, "reason")));
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

std::string render_junit(const Json& gate) {
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
  for (const Json& row : list(gate, "rows")) {
    const std::optional<Verdict> verdict = verdict_of(row);
    const std::string message = fmt::format("{} ({}): {}", text(row, "verdict"), row_change(row), why(row));
    const std::string name = text(row, "metric");
    if (!decides(row)) {
      add(row_subject(row), name, outcome("skipped", fmt::format("{}: {}", text(row, "role"), message)), &skipped);
    } else if (verdict == Verdict::regressed) {
      add(row_subject(row), name, outcome("failure", message, row_values(row)), &failures);
    } else if (is_unusable(verdict)) {
      add(row_subject(row), name, outcome("error", message), &errors);
    } else {
      add(row_subject(row), name, "", nullptr);
    }
  }
  for (const Json& cell : list(gate, "vanished")) {
    add(cell.get<std::string>(), "vanished", outcome("error", "no longer measured"), &errors);
  }
  if (tests == 0) {
    const bool pass = text(gate, "verdict") == "PASS";
    add("gate", "compared", pass ? "" : outcome("error", text(gate, "reason")), pass ? nullptr : &errors);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"diptych gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}"
      "  </testsuite>\n</testsuites>\n",
      tests, failures, errors, skipped, cases);
}

}  // namespace diptych::reports
