#include "reports/views/compare_views.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reports/gate/advisory.h"
#include "reports/gate/compare.h"
#include "reports/run/json_access.h"
#include "reports/run/verdicts.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/advisory_views.h"

namespace diptych::reports {
namespace {

constexpr std::array<Verdict, 6> by_severity = {Verdict::regressed,    Verdict::invalid,  Verdict::contaminated,
                                                Verdict::inconclusive, Verdict::improved, Verdict::equivalent};
constexpr std::size_t most_differences = 40;
constexpr std::size_t most_compared_rows = 25;

std::string value_text(const Json& value, const std::string& unit) {
  if (!value.is_number()) {
    return "-";
  }
  const double number = value.get<double>();
  if (unit == "seconds") {
    return format_seconds(std::optional<double>(number));
  }
  return unit == "bytes" ? format_bytes(number) : unit == "ratio" ? format_ratio(number) : format_count(number);
}

std::string percent(double ratio) {
  return fmt::format("{:+.{}f}", 100 * (ratio - 1), std::abs(ratio - 1) < 0.1 ? 2 : 1);
}

std::string setup_line(const Json& comparison) {
  return fmt::format("by {}, {}, machine: {}, level {:.4g} % over all time rows together", text(comparison, "by"),
                     text(comparison, "design"), text(member(comparison, "machine"), "same"),
                     100 * (1 - number(comparison, "alpha").value_or(0.01)));
}

std::string verdict_field(const Json& row) {
  std::string out = text(row, "verdict");
  const std::optional<Verdict> verdict = verdict_of(row);
  if (const auto detectable = number(row, "detectable");
      detectable && verdict != Verdict::regressed && verdict != Verdict::improved) {
    out += fmt::format(" (detects {})", format_percent(*detectable));
  }
  return out;
}

bool is_unremarkable(const Json& row) { return verdict_of(row) == Verdict::equivalent && text(row, "tier") != "time"; }

std::string name_list(const Json& names) {
  std::string out;
  for (const Json& name : names) {
    out += (out.empty() ? "" : ", ") + (name.is_string() ? name.get<std::string>() : std::string());
  }
  return out;
}

std::vector<Json> differences_that_matter(const Json& environment, std::size_t& others) {
  std::vector<Json> out;
  for (const Json& field : environment) {
    if (member(field, "matters") == true) {
      out.push_back(field);
    } else {
      ++others;
    }
  }
  return out;
}

std::string fingerprint_text(const Json& comparison, const TableOptions& options) {
  std::size_t others = 0;
  const std::vector<Json> fields = differences_that_matter(list(comparison, "environment"), others);
  if (fields.empty()) {
    return fmt::format("The environments are the same{}.\n", others > 0 ? " in what matters" : "");
  }
  TextTable table({"differs", "base", "head"});
  for (std::size_t i = 0; i < std::min(fields.size(), most_differences); ++i) {
    table.add({shorten(printable(text(fields[i], "name")), 44), shorten(printable(text(fields[i], "base")), 40),
               shorten(printable(text(fields[i], "head")), 40)});
  }
  std::string out = table.render(options.colour, options.width);
  if (fields.size() > most_differences) {
    out += fmt::format("and {} more; --json has all\n", fields.size() - most_differences);
  }
  return out;
}

std::string markdown_row(const Json& row) {
  const std::string verdict = text(row, "verdict");
  const bool strong = verdict_of(row) != Verdict::equivalent;
  return fmt::format("| {} | {} | {} | {} | {}{}{} | {} |\n",
                     escape_markdown(shorten(printable(row_subject(row)), 100)), escape_markdown(text(row, "metric")),
                     escape_markdown(row_values(row)), escape_markdown(row_change(row)), strong ? "**" : "",
                     escape_markdown(verdict), strong ? "**" : "", escape_markdown(text(row, "detail")));
}

}  // namespace

std::string row_values(const Json& row) {
  const std::string unit = text(row, "unit");
  return value_text(member(row, "base"), unit) + " -> " + value_text(member(row, "head"), unit);
}

std::string row_change(const Json& row) {
  const auto ratio = estimate(member(row, "ratio"));
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

std::string row_tone(const Json& row) {
  const std::optional<Verdict> verdict = verdict_of(row);
  return verdict == Verdict::regressed || is_unusable(verdict) ? "slower"
         : verdict == Verdict::improved                        ? "faster"
                                                               : "dim";
}

std::vector<Json> rows_by_severity(const Json& rows) {
  std::vector<Json> out(rows.begin(), rows.end());
  const auto rank = [](const Json& row) {
    return std::find(by_severity.begin(), by_severity.end(), verdict_of(row)) - by_severity.begin();
  };
  std::stable_sort(out.begin(), out.end(), [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
  return out;
}

std::string count_line(const Json& summary) {
  std::string out = fmt::format("{} compared", number(summary, "rows").value_or(0));
  const char* separator = ": ";
  for (const Verdict verdict : by_severity) {
    const std::string name(name_of(verdict));
    if (const auto count = number(member(summary, "counts"), name)) {
      out += fmt::format("{}{} {}", separator, *count, name);
      separator = ", ";
    }
  }
  return out;
}

std::string fingerprint_markdown(const Json& environment) {
  std::size_t others = 0;
  const std::vector<Json> fields = differences_that_matter(environment, others);
  if (fields.empty()) {
    return "";
  }
  std::string out = "| differs | base | head |\n|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(fields.size(), most_differences); ++i) {
    out += fmt::format("| {} | {} | {} |\n", escape_markdown(shorten(printable(text(fields[i], "name")), 80)),
                       escape_markdown(shorten(printable(text(fields[i], "base")), 120)),
                       escape_markdown(shorten(printable(text(fields[i], "head")), 120)));
  }
  return out;
}

std::string render_comparison(const Json& comparison, const SideNames& names, const TableOptions& options) {
  const Json& summary = member(comparison, "summary");
  std::string out = fmt::format("{}: {}\n", text(summary, "verdict"), count_line(summary));
  out += fmt::format("base {}\nhead {}\n{}\n", printable(names.base), printable(names.head), setup_line(comparison));
  for (const Json& note : list(comparison, "notes")) {
    out += "note: " + printable(note.get<std::string>()) + "\n";
  }
  TextTable table({"cell", "metric", "base -> head", "change", "verdict"});
  std::size_t same = 0;
  for (const Json& row : rows_by_severity(list(comparison, "rows"))) {
    if (is_unremarkable(row)) {
      ++same;
      continue;
    }
    table.add({shorten(printable(row_subject(row)), 44), text(row, "metric"), row_values(row), row_change(row),
               verdict_field(row)},
              row_tone(row));
  }
  if (!table.empty()) {
    out += "\n" + table.render(options.colour, options.width);
  }
  if (same > 0) {
    out += fmt::format("{}{} exact and near-exact metrics are the same.\n", table.empty() ? "\n" : "", same);
  }
  for (const auto& [key, word] : {std::pair("new", "only in head"), std::pair("vanished", "only in base (vanished)")}) {
    if (const Json& cells = list(comparison, key); !cells.empty()) {
      out += fmt::format("{}: {}\n", word, printable(name_list(cells)));
    }
  }
  if (const std::string advisory = render_advisory(comparison, options); !advisory.empty()) {
    out += "\n" + advisory;
  }
  return out + "\n" + fingerprint_text(comparison, options);
}

std::string render_comparison_markdown(const Json& comparison, const SideNames& names) {
  const Json& summary = member(comparison, "summary");
  std::string out = fmt::format("# {}: {}\n\n", text(summary, "verdict"), count_line(summary));
  out += fmt::format("Base {}, head {}; {}.\n\n", escape_markdown(names.base), escape_markdown(names.head),
                     escape_markdown(setup_line(comparison)));
  for (const Json& note : list(comparison, "notes")) {
    out += "- " + escape_markdown(note.get<std::string>()) + "\n";
  }
  for (const auto& [key, word] : {std::pair("new", "Only in head"), std::pair("vanished", "Vanished (only in base)")}) {
    if (const Json& cells = list(comparison, key); !cells.empty()) {
      out += fmt::format("- {}: {}\n", word, escape_markdown(name_list(cells)));
    }
  }
  const std::string header = "\n| cell | metric | base -> head | change | verdict | why |\n|---|---|---|---|---|---|\n";
  const std::vector<Json> rows = rows_by_severity(list(comparison, "rows"));
  out += header;
  for (std::size_t i = 0; i < std::min(rows.size(), most_compared_rows); ++i) {
    out += markdown_row(rows[i]);
  }
  if (rows.size() > most_compared_rows) {
    out += fmt::format("\n<details><summary>{} more rows</summary>\n", rows.size() - most_compared_rows) + header;
    for (std::size_t i = most_compared_rows; i < rows.size(); ++i) {
      out += markdown_row(rows[i]);
    }
    out += "\n</details>\n";
  }
  if (const std::string table = markdown_advisory(comparison); !table.empty()) {
    out += "\n<details><summary>Memory and hardware counters</summary>\n\n" + table + "\n</details>\n";
  }
  if (const std::string table = fingerprint_markdown(list(comparison, "environment")); !table.empty()) {
    out += "\n<details><summary>How the environments differ</summary>\n\n" + table + "\n</details>\n";
  }
  return out;
}

}  // namespace diptych::reports
