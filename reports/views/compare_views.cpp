#include "reports/views/compare_views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "reports/run/verdicts.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/advisory_views.h"

namespace diptych::reports {
namespace {

constexpr std::array<Verdict, 7> by_severity = {Verdict::regressed,      Verdict::invalid,      Verdict::contaminated,
                                                Verdict::method_changed, Verdict::inconclusive, Verdict::improved,
                                                Verdict::equivalent};
constexpr std::size_t most_differences = 40;
constexpr std::size_t most_compared_rows = 25;

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) {
    return "-";
  }
  if (unit == "seconds") {
    return format_seconds(value);
  }
  return unit == "bytes" ? format_bytes(*value) : unit == "ratio" ? format_ratio(*value) : format_count(*value);
}

std::string percent(double ratio) {
  return fmt::format("{:+.{}f}", 100 * (ratio - 1), std::abs(ratio - 1) < 0.1 ? 2 : 1);
}

std::string verdict_field(const ComparisonRow& row) {
  std::string out = row.verdict_name();
  const std::optional<Verdict> verdict = row.verdict();
  if (const auto detectable = row.detectable();
      detectable && verdict != Verdict::regressed && verdict != Verdict::improved) {
    out += fmt::format(" (detects {})", format_percent(*detectable));
  }
  return out;
}

std::string fingerprint_text(const Parts<EnvironmentDifference>& environment, const TableOptions& options) {
  const std::vector<EnvironmentDifference> fields = differences_that_matter(environment);
  if (fields.empty()) {
    return fmt::format("The environments are the same{}.\n", environment.empty() ? "" : " in what matters");
  }
  TextTable table({"differs", "base", "head"});
  for (std::size_t i = 0; i < std::min(fields.size(), most_differences); ++i) {
    table.add({shorten(printable(fields[i].name()), 44), shorten(printable(fields[i].base()), 40),
               shorten(printable(fields[i].head()), 40)});
  }
  std::string out = table.render(options.colour, options.width);
  if (fields.size() > most_differences) {
    out += fmt::format("and {} more; --json has all\n", fields.size() - most_differences);
  }
  return out;
}

std::string method_text(const ComparisonDocument& comparison) {
  std::string out;
  for (const MethodEntry change : comparison.method()) {
    out += fmt::format("method changed: {}\n", printable(method_change_text(change)));
  }
  return out;
}

std::string line_of(const ComparisonRow& row) {
  const char* emphasis = row.verdict() == Verdict::equivalent ? "" : "**";
  return fmt::format("{} {}{}{} | {} |\n", row_markdown(row), emphasis, escape_markdown(row.verdict_name()), emphasis,
                     escape_markdown(row.detail()));
}

}  // namespace

std::string comparison_setup(const ComparisonDocument& comparison) {
  return fmt::format("by {}, {}, machine: {}, level {:.4g} % over all time rows together", comparison.by(),
                     comparison.design(), comparison.machine().same(), 100 * (1 - comparison.alpha().value_or(0.01)));
}

bool is_unremarkable(const ComparisonRow& row) { return row.verdict() == Verdict::equivalent && !row.is_time(); }

std::vector<EnvironmentDifference> differences_that_matter(const Parts<EnvironmentDifference>& environment) {
  std::vector<EnvironmentDifference> out;
  std::copy_if(environment.begin(), environment.end(), std::back_inserter(out),
               [](const EnvironmentDifference& field) { return field.matters(); });
  return out;
}

std::string method_change_text(const MethodEntry& change) {
  const auto value = [](const std::string& text) { return text.empty() ? std::string("none") : shorten(text, 60); };
  return fmt::format("{}{}{} {} -> {}", shorten(change.of(), 60), change.of().empty() ? "" : ": ", change.name(),
                     value(change.base()), value(change.head()));
}

std::string row_values(const ComparisonRow& row) {
  const std::string unit = row.unit();
  return value_text(row.base(), unit) + " -> " + value_text(row.head(), unit);
}

std::string row_change(const ComparisonRow& row) {
  const auto ratio = row.ratio();
  if (!ratio) {
    return "-";
  }
  if (ratio->value == 1 && !ratio->has_interval()) {
    return "0 %";
  }
  std::string out = percent(ratio->value) + " %";
  if (ratio->has_interval()) {
    out += fmt::format(" [{}, {}]", percent(*ratio->low), percent(*ratio->high));
  }
  return out;
}

std::string row_tone(const ComparisonRow& row) {
  const std::optional<Verdict> verdict = row.verdict();
  return verdict == Verdict::regressed || is_unusable(verdict) ? "slower"
         : verdict == Verdict::improved                        ? "faster"
                                                               : "dim";
}

std::vector<std::string> row_fields(const ComparisonRow& row, const std::string& verdict) {
  return {shorten(printable(row.subject()), 44), row.metric(), row_values(row), row_change(row), verdict};
}

std::string row_markdown(const ComparisonRow& row) {
  return fmt::format("| {} | {} | {} | {} |", escape_markdown(shorten(printable(row.subject()), 100)),
                     escape_markdown(row.metric()), escape_markdown(row_values(row)), escape_markdown(row_change(row)));
}

std::vector<ComparisonRow> rows_by_severity(const Parts<ComparisonRow>& rows) {
  std::vector<ComparisonRow> out(rows.begin(), rows.end());
  const auto rank = [](const ComparisonRow& row) {
    return std::find(by_severity.begin(), by_severity.end(), row.verdict()) - by_severity.begin();
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const ComparisonRow& a, const ComparisonRow& b) { return rank(a) < rank(b); });
  return out;
}

std::vector<ComparisonRow> rows_by_change(const Parts<ComparisonRow>& rows) {
  const auto move_of = [](const ComparisonRow& row) {
    const double base = row.base().value_or(0);
    const double head = row.head().value_or(0);
    return base == head ? 0 : base > 0 && head > 0 ? std::abs(std::log(head / base)) : INFINITY;
  };
  std::vector<ComparisonRow> out(rows.begin(), rows.end());
  std::stable_sort(out.begin(), out.end(),
                   [&](const ComparisonRow& a, const ComparisonRow& b) { return move_of(a) > move_of(b); });
  return out;
}

std::vector<std::string> reasons_of_the_undecided(const std::vector<ComparisonRow>& rows) {
  constexpr std::size_t most_reasons = 6;
  std::vector<std::pair<std::string, std::size_t>> counted;  // in the order of the rows
  std::vector<std::string> verdicts;
  for (const ComparisonRow& row : rows) {
    const std::optional<Verdict> verdict = row.verdict();
    const bool is_undecided =
        verdict == Verdict::invalid || verdict == Verdict::contaminated || verdict == Verdict::inconclusive;
    const bool is_said = row.reason() == "effect-below-mde" || row.reason() == "quick-size";  // beside it, and above
    if (!is_undecided || is_said || row.detail().empty()) {
      continue;
    }
    const auto found = std::ranges::find(counted, row.detail(), [](const auto& entry) { return entry.first; });
    if (found != counted.end()) {
      ++found->second;
    } else {
      counted.emplace_back(row.detail(), 1);
      verdicts.push_back(row.verdict_name());
    }
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(counted.size(), most_reasons); ++i) {
    const auto& [detail, count] = counted[i];
    lines.push_back(fmt::format("{} ({} row{}): {}", verdicts[i], count, count == 1 ? "" : "s", shorten(detail, 200)));
  }
  if (counted.size() > most_reasons) {
    lines.push_back(fmt::format("and {} more reasons; --json has all", counted.size() - most_reasons));
  }
  return lines;
}

std::string count_line(const RowSummary& summary) {
  std::string out = fmt::format("{} compared", summary.rows().value_or(0));
  const char* separator = ": ";
  for (const Verdict verdict : by_severity) {
    if (const auto count = summary.count(verdict)) {
      out += fmt::format("{}{} {}", separator, *count, name_of(verdict));
      separator = ", ";
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> name_lists(
    std::initializer_list<std::pair<const char*, NameList>> lists) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [heading, names] : lists) {
    if (!names.empty()) {
      out.emplace_back(heading, names.joined());
    }
  }
  return out;
}

std::string fingerprint_markdown(const Parts<EnvironmentDifference>& environment) {
  const std::vector<EnvironmentDifference> fields = differences_that_matter(environment);
  if (fields.empty()) {
    return "";
  }
  std::string out = "| differs | base | head |\n|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(fields.size(), most_differences); ++i) {
    out += fmt::format("| {} | {} | {} |\n", escape_markdown(shorten(printable(fields[i].name()), 80)),
                       escape_markdown(shorten(printable(fields[i].base()), 120)),
                       escape_markdown(shorten(printable(fields[i].head()), 120)));
  }
  return out;
}

std::string render_comparison(const ComparisonDocument& comparison, const SideNames& names,
                              const TableOptions& options) {
  const RowSummary summary = comparison.summary();
  std::string out = fmt::format("{}: {}\n", summary.verdict_name(), count_line(summary));
  out +=
      fmt::format("base {}\nhead {}\n{}\n", printable(names.base), printable(names.head), comparison_setup(comparison));
  out += method_text(comparison);
  for (const std::string& note : comparison.notes().all()) {
    out += "note: " + printable(note) + "\n";
  }
  TextTable table({"cell", "metric", "base -> head", "change", "verdict"});
  std::size_t same = 0;
  const std::vector<ComparisonRow> rows = rows_by_severity(comparison.rows());
  for (const ComparisonRow& row : rows) {
    if (is_unremarkable(row)) {
      ++same;
    } else {
      table.add(row_fields(row, verdict_field(row)), row_tone(row));
    }
  }
  if (!table.empty()) {
    out += "\n" + table.render(options.colour, options.width);
  }
  for (const std::string& reason : reasons_of_the_undecided(rows)) {
    out += printable(reason) + "\n";
  }
  if (same > 0) {
    out += fmt::format("{}{} exact and near-exact metrics are the same.\n", table.empty() ? "\n" : "", same);
  }
  for (const auto& [heading, cells] :
       name_lists({{"only in head", comparison.new_cells()}, {"only in base (vanished)", comparison.vanished()}})) {
    out += fmt::format("{}: {}\n", heading, printable(cells));
  }
  if (const std::string advisory = render_advisory(comparison, options); !advisory.empty()) {
    out += "\n" + advisory;
  }
  return out + "\n" + fingerprint_text(comparison.environment(), options);
}

std::string render_comparison_markdown(const ComparisonDocument& comparison, const SideNames& names) {
  const RowSummary summary = comparison.summary();
  std::string out = fmt::format("# {}: {}\n\n", summary.verdict_name(), count_line(summary));
  out += fmt::format("Base {}, head {}; {}.\n\n", escape_markdown(names.base), escape_markdown(names.head),
                     escape_markdown(comparison_setup(comparison)));
  for (const MethodEntry change : comparison.method()) {
    out += "- method changed: " + escape_markdown(method_change_text(change)) + "\n";
  }
  for (const std::string& note : comparison.notes().all()) {
    out += "- " + escape_markdown(note) + "\n";
  }
  for (const auto& [heading, cells] :
       name_lists({{"Only in head", comparison.new_cells()}, {"Vanished (only in base)", comparison.vanished()}})) {
    out += fmt::format("- {}: {}\n", heading, escape_markdown(cells));
  }
  const std::string header = "\n| cell | metric | base -> head | change | verdict | why |\n|---|---|---|---|---|---|\n";
  const std::vector<ComparisonRow> rows = rows_by_severity(comparison.rows());
  out += header;
  for (std::size_t i = 0; i < std::min(rows.size(), most_compared_rows); ++i) {
    out += line_of(rows[i]);
  }
  if (rows.size() > most_compared_rows) {
    out += fmt::format("\n<details><summary>{} more rows</summary>\n", rows.size() - most_compared_rows) + header;
    for (std::size_t i = most_compared_rows; i < rows.size(); ++i) {
      out += line_of(rows[i]);
    }
    out += "\n</details>\n";
  }
  if (const std::string table = markdown_advisory(comparison); !table.empty()) {
    out += "\n<details><summary>Memory and hardware counters</summary>\n\n" + table + "\n</details>\n";
  }
  if (const std::string table = fingerprint_markdown(comparison.environment()); !table.empty()) {
    out += "\n<details><summary>How the environments differ</summary>\n\n" + table + "\n</details>\n";
  }
  return out;
}

}  // namespace diptych::reports
