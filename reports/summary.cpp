#include "reports/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/json_access.h"
#include "reports/ladder.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

std::string join(const std::vector<std::string>& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string rung_text(const Json& rung, Glyphs glyphs) {
  const auto saved = estimate(member(rung, "saved_seconds"));
  std::string cause = text(rung, "cause");
  if (cause.empty()) {
    cause = fmt::format("{} to {}", text(rung, "from"), text(rung, "to"));
  }
  if (!saved) {
    return cause + ": not measured";
  }
  if (saved->has_interval() && !saved->excludes(0)) {
    return cause + ": no clear effect";
  }
  const auto share = number(rung, "share");
  // "passes save", "dispatch, tape save", "fusion saves"
  const bool plural = cause.find(',') != std::string::npos || cause.ends_with('s');
  const char* of_what = saved->value < 0 && share && *share > 0 ? " of the loss" : "";
  return fmt::format("{} {}{} {}{}", cause, saved->value >= 0 ? "save" : "cost", plural ? "" : "s",
                     format_seconds(std::optional<double>(std::abs(saved->value)), glyphs),
                     share ? fmt::format(" ({}{})", format_percent(*share), of_what) : "");
}

// "120 -> 98 nodes" from the passes of the compared arm; "120 -> 40 dispatches" where both arms count them.
std::vector<std::string> count_texts(const Json& cell, const Json& comparison, Glyphs glyphs) {
  const char* arrow = glyphs == Glyphs::ascii ? "->" : "→";
  std::vector<std::string> texts;
  const Json& base = find_arm(cell, text(comparison, "base"));
  const Json& arm = find_arm(cell, text(comparison, "arm"));
  const Json& passes = list(arm, "passes");
  if (!passes.empty()) {
    const auto before = number(passes.front(), "nodes_before");
    const auto after = number(passes.back(), "nodes_after");
    if (before && after && *before != *after) {
      texts.push_back(fmt::format("{} {} {} nodes", format_count(*before), arrow, format_count(*after)));
    }
  }
  for (const char* field : {"dispatches", "allocations"}) {
    const auto before = number(member(base, "exact"), field);
    const auto after = number(member(arm, "exact"), field);
    if (before && after && *before != *after) {
      texts.push_back(fmt::format("{} {} {} {}", format_count(*before), arrow, format_count(*after), field));
    }
  }
  return texts;
}

std::string compared(const Json& comparison, Glyphs glyphs) {
  const auto speedup = estimate(member(comparison, "speedup"));
  const std::string tone = verdict_tone(comparison);
  const std::string arm = text(comparison, "arm");
  const std::string base = text(comparison, "base");
  if (tone == "faster" && speedup) {
    return fmt::format("{} is {} faster than {}", arm, format_ratio(speedup->value, glyphs), base);
  }
  if (tone == "slower" && speedup) {
    return fmt::format("{} is {} slower than {}", arm, format_ratio(1 / speedup->value, glyphs), base);
  }
  const std::string verdict = text(member(comparison, "verdict"), "verdict");
  if (verdict == "EQUIVALENT") {
    return fmt::format("{} and {} take the same time", arm, base);
  }
  return verdict == "INVALID" ? fmt::format("{} and {} cannot be compared", arm, base)
                              : fmt::format("{} against {} is undecided", arm, base);
}

}  // namespace

const Json& main_comparison(const Json& cell) {
  static const Json nothing;
  const Json* chosen = &nothing;
  for (const Json& comparison : list(cell, "comparisons")) {
    chosen = &comparison;
    if (text(comparison, "arm") == "graph") {
      break;
    }
  }
  return *chosen;
}

const Json& find_arm(const Json& cell, const std::string& name) {
  static const Json nothing;
  const Json& arms = list(cell, "arms");
  const auto found = std::find_if(arms.begin(), arms.end(), [&](const Json& arm) { return text(arm, "name") == name; });
  return found == arms.end() ? nothing : *found;
}

std::string verdict_text(const Json& comparison) {
  const Json& verdict = member(comparison, "verdict");
  const std::string name = text(verdict, "verdict");
  if (name.empty()) {
    return "-";
  }
  const std::string direction = text(verdict, "direction");
  if (name == "INDICATIVE" || name == "CONTAMINATED") {
    return direction.empty() ? name : fmt::format("{}: {}", name, direction);
  }
  const auto mde = number(comparison, "mde");
  return name == "INCONCLUSIVE" && mde ? fmt::format("{} (MDE {})", name, format_percent(*mde)) : name;
}

std::string verdict_tone(const Json& comparison) {
  const Json& verdict = member(comparison, "verdict");
  const std::string name = text(verdict, "verdict");
  if (name == "FASTER" || name == "SLOWER" || name == "INDICATIVE") {
    return text(verdict, "direction");
  }
  return name == "EQUIVALENT" || name == "INCONCLUSIVE" ? "unclear" : "";
}

std::string break_even_text(const Json& comparison) {
  const Json& value = member(comparison, "break_even");
  if (!value.is_object()) {
    return "-";
  }
  const auto calls = number(value, "calls");
  if (member(value, "reached") != true || !calls) {
    return "not reached";
  }
  if (*calls == 0) {
    return "at once";
  }
  const auto low = number(value, "low");
  const auto high = number(value, "high");
  const std::string interval =
      low ? fmt::format(" [{}, {}]", format_count(*low), high ? format_count(*high) : "no bound") : "";
  return fmt::format("{} call{}{}", format_count(*calls), *calls == 1 ? "" : "s", interval);
}

std::string headline(const Json& run, Glyphs glyphs) {
  const Json& cells = list(run, "cells");
  if (cells.empty()) {
    return "Nothing was measured: the run has no cells";
  }
  const auto agrees = [](const Json& cell) { return member(member(cell, "validity"), "agree") == true; };
  if (!is_timed(run) && std::all_of(cells.begin(), cells.end(), agrees)) {
    return cells.size() == 1 ? fmt::format("{}: counted, not timed", text(cells.front(), "workload"))
                             : fmt::format("{} workloads: counted, not timed", cells.size());
  }
  if (cells.size() == 1) {
    const Json& comparison = main_comparison(cells.front());
    const std::string workload = text(cells.front(), "workload");
    return comparison.is_null() ? fmt::format("{}: one arm, nothing to compare", workload)
                                : fmt::format("{}: {}", workload, compared(comparison, glyphs));
  }
  std::map<std::string, int> tones;
  double least = 0;
  double most = 0;
  for (const Json& cell : cells) {
    const Json& comparison = main_comparison(cell);
    const std::string tone = verdict_tone(comparison);
    const auto speedup = estimate(member(comparison, "speedup"));
    if (tone == "faster" && speedup) {
      least = tones[tone] == 0 ? speedup->value : std::min(least, speedup->value);
      most = std::max(most, speedup->value);
    }
    ++tones[tone];
  }
  std::vector<std::string> parts;
  if (tones["faster"] > 0) {
    const std::string range = tones["faster"] == 1
                                  ? format_ratio(most, glyphs)
                                  : fmt::format("{} to {}", format_ratio(least, glyphs), format_ratio(most, glyphs));
    parts.push_back(fmt::format("{} faster than eager ({})", tones["faster"], range));
  }
  if (tones["slower"] > 0) {
    parts.push_back(fmt::format("{} slower", tones["slower"]));
  }
  if (tones["unclear"] > 0) {
    parts.push_back(fmt::format("{} equal or undecided", tones["unclear"]));
  }
  if (tones[""] > 0) {
    parts.push_back(fmt::format("{} without a valid comparison", tones[""]));
  }
  return fmt::format("Of {} workloads: {}", cells.size(), join(parts, ", "));
}

std::string why(const Json& cell, Glyphs glyphs) {
  const Json& comparison = main_comparison(cell);
  const Json& verdict = member(comparison, "verdict");
  const std::string name = text(verdict, "verdict");
  std::vector<std::string> parts;
  if (name == "INVALID" || name == "CONTAMINATED") {
    parts.push_back(text(verdict, "detail").empty() ? text(verdict, "reason") : text(verdict, "detail"));
  }
  if (name != "INVALID") {
    for (const Json& rung : rungs_of(cell)) {
      parts.push_back(rung_text(rung, glyphs));
    }
    const std::vector<std::string> counts = count_texts(cell, comparison, glyphs);
    parts.insert(parts.end(), counts.begin(), counts.end());
  }
  return join(parts, "; ");
}

std::string figures_line(const Json& cell) {
  std::vector<std::string> figures;
  for (const Json& arm : list(cell, "arms")) {
    const auto seconds = estimate(member(arm, "seconds"));
    figures.push_back(fmt::format("{} {}", text(arm, "name"),
                                  seconds ? format_seconds(std::optional<double>(seconds->value)) : "not timed"));
  }
  return join(figures, ", ");
}

std::vector<std::string> metric_lines(const Json& cell, Glyphs glyphs) {
  struct Values {
    std::vector<std::string> texts, arms;
  };
  std::vector<std::string> names;
  std::map<std::string, Values> values;
  for (const Json& metric : list(cell, "metrics")) {
    const std::string name = text(metric, "name");
    const auto value = number(metric, "value");
    if (!values.contains(name)) {
      names.push_back(name);
    }
    values[name].texts.push_back(value ? format_metric(*value, text(metric, "unit"), glyphs) : "not measured");
    values[name].arms.push_back(text(metric, "arm"));
  }
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const auto& [texts, arms] = values[name];
    if (texts.size() > 1 && std::count(texts.begin(), texts.end(), texts.front()) == std::ssize(texts)) {
      lines.push_back(fmt::format("{} {} in every arm", name, texts.front()));
      continue;
    }
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      parts.push_back(arms[i].empty() ? texts[i] : fmt::format("{} ({})", texts[i], arms[i]));
    }
    lines.push_back(fmt::format("{} {}", name, join(parts, ", ")));
  }
  return lines;
}

std::vector<std::string> arm_names(const Json& run) {
  std::vector<std::string> names;
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      const std::string name = text(arm, "name");
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

std::vector<std::string> failed_arms(const Json& run) {
  std::vector<std::pair<std::string, std::string>> failures;  // arm and reason, in the order of the run
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> cells;
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      const std::pair failure{text(arm, "name"), text(arm, "failed")};
      if (failure.second.empty()) {
        continue;
      }
      if (!cells.contains(failure)) {
        failures.push_back(failure);
      }
      cells[failure].push_back(text(cell, "workload"));
    }
  }
  std::vector<std::string> lines;
  for (const auto& failure : failures) {
    lines.push_back(fmt::format("{} is INVALID in {}: {}", failure.first, join(cells[failure], ", "), failure.second));
  }
  return lines;
}

std::vector<std::string> cautions(const Json& run) {
  if (member(run, "injected").is_object()) {
    return {
        "A slowdown was put into this run on purpose (--inject-...): its figures test a gate, they measure nothing."};
  }
  std::vector<std::string> sentences;
  if (!is_timed(run)) {
    return sentences;
  }
  if (text(member(run, "size"), "name") == "quick") {
    sentences.emplace_back(
        "A quick run shows directions, not verdicts: measure with --standard before you rely on it.");
  }
  const Json& variables = member(member(member(run, "environment"), "process"), "tuning_variables");
  if (const std::string type = text(variables, "OPENBLAS_CORETYPE"); !type.empty()) {
    sentences.push_back(fmt::format("OPENBLAS_CORETYPE={} chose the kernels of matrix products, not this processor.",
                                    shorten(printable(type), 40)));
  }
  return sentences;
}

std::string setup_line(const Json& run, Glyphs glyphs) {
  const Json& size = member(run, "size");
  if (!is_timed(run)) {
    return fmt::format("{}: seed {}, numerics {}", joined(list(member(run, "plan"), "metrics"), " and "),
                       member(run, "seed").dump(), text(run, "numerics"));
  }
  const double threads = number(run, "threads").value_or(1);
  return fmt::format("{}: {} processes {} {} rounds, seed {}, {} thread{}, numerics {}", text(size, "name"),
                     format_count(number(size, "processes").value_or(0)), glyphs == Glyphs::ascii ? "x" : "×",
                     format_count(number(size, "rounds").value_or(0)), member(run, "seed").dump(),
                     format_count(threads), threads == 1 ? "" : "s", text(run, "numerics"));
}

}  // namespace diptych::reports
