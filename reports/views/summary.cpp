#include "reports/views/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/ladder.h"
#include "reports/run/run.h"
#include "reports/run/verdicts.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string join(const std::vector<std::string>& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string rung_text(const Rung& rung, Glyphs glyphs) {
  const auto saved = rung.saved_seconds();
  std::string cause = rung.cause();
  if (cause.empty()) {
    cause = fmt::format("{} to {}", rung.from(), rung.to());
  }
  if (!saved) {
    return cause + ": not measured";
  }
  if (rung.is_same_graph()) {
    return cause + ": the same graph";
  }
  if (saved->has_interval() && !saved->excludes(0)) {
    return cause + ": no clear effect";
  }
  const auto share = rung.share();
  // "passes save", "dispatch, tape save", "fusion saves"
  const bool plural = cause.find(',') != std::string::npos || cause.ends_with('s');
  const char* of_what = saved->value < 0 && share && *share > 0 ? " of the loss" : "";
  return fmt::format("{} {}{} {}{}", cause, saved->value >= 0 ? "save" : "cost", plural ? "" : "s",
                     format_seconds(std::optional<double>(std::abs(saved->value)), glyphs),
                     share ? fmt::format(" ({}{})", format_percent(*share), of_what) : "");
}

// "120 -> 98 nodes" from the passes of the compared arm; "120 -> 40 dispatches" where both arms count them.
std::vector<std::string> count_texts(const Cell& cell, const Comparison& comparison, Glyphs glyphs) {
  const char* arrow = glyphs == Glyphs::ascii ? "->" : "→";
  std::vector<std::string> texts;
  const Arm base = cell.arm(comparison.base());
  const Arm arm = cell.arm(comparison.arm());
  const Parts<PassEntry> passes = arm.passes();
  if (!passes.empty()) {
    const auto before = passes.front().nodes_before();
    const auto after = passes.back().nodes_after();
    if (before && after && *before != *after) {
      texts.push_back(fmt::format("{} {} {} nodes", format_count(*before), arrow, format_count(*after)));
    }
  }
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    const auto before = base.exact(metric.name);
    const auto after = arm.exact(metric.name);
    if (metric.is_reason && before && after && *before != *after) {
      texts.push_back(fmt::format("{} {} {} {}", format_count(*before), arrow, format_count(*after), metric.title));
    }
  }
  return texts;
}

/// The ratio the other way round: times as slow instead of times as fast.
Estimate inverse(const Estimate& ratio) {
  Estimate turned = ratio;
  turned.value = 1 / ratio.value;
  if (ratio.has_interval()) {
    turned.low = 1 / *ratio.high;
    turned.high = 1 / *ratio.low;
  }
  return turned;
}

constexpr const char* kWhoseDoing = "how much of it is the machine's doing is not known";

/// What is known of a contaminated comparison, and what isn't.
std::string contaminated(const Comparison& comparison, const Estimate& speedup, Glyphs glyphs) {
  const std::string direction = comparison.verdict().direction();
  const std::string arm = comparison.arm();
  const std::string base = comparison.base();
  if (direction == "faster") {
    return fmt::format("{} is {} faster than {}, but the machine was not quiet: {}", arm, format_ratio(speedup, glyphs),
                       base, kWhoseDoing);
  }
  if (direction == "slower") {
    return fmt::format("{} is {} slower than {}, but the machine was not quiet: {}", arm,
                       format_ratio(inverse(speedup), glyphs), base, kWhoseDoing);
  }
  return fmt::format("{} against {} is undecided, {}, and the machine was not quiet", arm, base,
                     format_ratio(speedup, glyphs));
}

std::string compared(const Comparison& comparison, Glyphs glyphs) {
  const auto speedup = comparison.speedup();
  const std::string tone = verdict_tone(comparison);
  const std::string arm = comparison.arm();
  const std::string base = comparison.base();
  if (tone == "faster" && speedup) {
    return fmt::format("{} is {} faster than {}", arm, format_ratio(speedup->value, glyphs), base);
  }
  if (tone == "slower" && speedup) {
    return fmt::format("{} is {} slower than {}", arm, format_ratio(inverse(*speedup).value, glyphs), base);
  }
  const std::optional<Verdict> verdict = comparison.verdict().verdict();
  if (verdict == Verdict::contaminated && speedup) {
    return contaminated(comparison, *speedup, glyphs);
  }
  if (verdict == Verdict::equivalent) {
    return fmt::format("{} and {} take the same time", arm, base);
  }
  return verdict == Verdict::invalid ? fmt::format("{} and {} cannot be compared", arm, base)
                                     : fmt::format("{} against {} is undecided", arm, base);
}

/// "6 faster than eager (1.12x to 13.6x)", "1 slower", "2 equal or undecided". A single one is shown with its interval.
std::vector<std::string> directions(const std::map<std::string, std::vector<Estimate>>& found, const char* than,
                                    Glyphs glyphs) {
  const auto of = [&](const char* direction) {
    const auto group = found.find(direction);
    return group == found.end() ? std::vector<Estimate>{} : group->second;
  };
  std::vector<std::string> parts;
  if (const std::vector<Estimate> faster = of("faster"); !faster.empty()) {
    const auto [least, most] = std::minmax_element(
        faster.begin(), faster.end(), [](const Estimate& a, const Estimate& b) { return a.value < b.value; });
    parts.push_back(fmt::format("{} faster{} ({})", faster.size(), than,
                                faster.size() == 1 ? format_ratio(*most, glyphs)
                                                   : fmt::format("{} to {}", format_ratio(least->value, glyphs),
                                                                 format_ratio(most->value, glyphs))));
  }
  if (const std::size_t slower = of("slower").size(); slower > 0) {
    parts.push_back(fmt::format("{} slower", slower));
  }
  if (const std::size_t unclear = of("unclear").size(); unclear > 0) {
    parts.push_back(fmt::format("{} equal or undecided", unclear));
  }
  return parts;
}

}  // namespace

std::string verdict_text(const Comparison& comparison) {
  const Judgement verdict = comparison.verdict();
  const std::string name = verdict.name();
  if (name.empty()) {
    return "-";
  }
  const std::string direction = verdict.direction();
  const std::optional<Verdict> kind = verdict_from(name);
  if (kind == Verdict::indicative || kind == Verdict::contaminated) {
    return direction.empty() ? name : fmt::format("{}: {}", name, direction);
  }
  const auto mde = comparison.mde();
  return kind == Verdict::inconclusive && mde ? fmt::format("{} (MDE {})", name, format_percent(*mde)) : name;
}

std::string verdict_tone(const Comparison& comparison) {
  const Judgement verdict = comparison.verdict();
  const std::optional<Verdict> name = verdict.verdict();
  if (name == Verdict::faster || name == Verdict::slower || name == Verdict::indicative) {
    return verdict.direction();
  }
  return name == Verdict::equivalent || name == Verdict::inconclusive ? "unclear" : "";
}

std::string break_even_text(const BreakEvenEntry& value) {
  if (!value) {
    return "-";
  }
  const auto calls = value.calls();
  if (!value.reached() || !calls) {
    return value.uncertain() ? "not certain" : "not reached";
  }
  if (*calls == 0) {
    return "at once";
  }
  const auto low = value.low();
  const auto high = value.high();
  const std::string interval =
      low ? fmt::format(" [{}, {}]", format_count(*low), high ? format_count(*high) : "no bound") : "";
  return fmt::format("{} call{}{}", format_count(*calls), *calls == 1 ? "" : "s", interval);
}

std::string headline(const Run& run, Glyphs glyphs) {
  const Parts<Cell> cells = run.cells();
  if (cells.empty()) {
    return "Nothing was measured: the run has no cells";
  }
  const auto agrees = [](const Cell& cell) { return cell.validity().agree(); };
  if (!run.is_timed() && std::all_of(cells.begin(), cells.end(), agrees)) {
    return cells.size() == 1 ? fmt::format("{}: counted, not timed", cells.front().workload())
                             : fmt::format("{} workloads: counted, not timed", cells.size());
  }
  if (cells.size() == 1) {
    const Comparison comparison = cells.front().main_comparison();
    const std::string workload = cells.front().workload();
    return comparison ? fmt::format("{}: {}", workload, compared(comparison, glyphs))
                      : fmt::format("{}: one arm, nothing to compare", workload);
  }
  std::map<std::string, std::vector<Estimate>> valid;
  std::map<std::string, std::vector<Estimate>> doubtful;
  int nothing = 0;
  for (const Cell cell : cells) {
    const Comparison comparison = cell.main_comparison();
    const Judgement verdict = comparison.verdict();
    const auto speedup = comparison.speedup();
    if (const std::string tone = verdict_tone(comparison); !tone.empty() && speedup) {
      valid[tone].push_back(*speedup);
    } else if (verdict.verdict() == Verdict::contaminated && speedup) {
      doubtful[verdict.direction()].push_back(*speedup);
    } else {
      ++nothing;
    }
  }
  std::vector<std::string> parts = directions(valid, " than eager", glyphs);
  if (nothing > 0) {
    parts.push_back(fmt::format("{} without a valid comparison", nothing));
  }
  if (const std::vector<std::string> known = directions(doubtful, valid.empty() ? " than eager" : "", glyphs);
      !known.empty()) {
    parts.push_back(fmt::format("{}{} on a machine that was not quiet, and {}", parts.empty() ? "" : "and ",
                                join(known, ", "), kWhoseDoing));
  }
  return fmt::format("Of {} workloads: {}", cells.size(), join(parts, ", "));
}

std::string why(const Cell& cell, Glyphs glyphs) {
  const Comparison comparison = cell.main_comparison();
  const Judgement verdict = comparison.verdict();
  const std::optional<Verdict> name = verdict.verdict();
  std::vector<std::string> parts;
  if (is_unusable(name)) {
    parts.push_back(verdict.detail().empty() ? verdict.reason() : verdict.detail());
  }
  if (name != Verdict::invalid) {
    for (const Rung rung : cell.rungs()) {
      parts.push_back(rung_text(rung, glyphs));
    }
    const std::vector<std::string> counts = count_texts(cell, comparison, glyphs);
    parts.insert(parts.end(), counts.begin(), counts.end());
  }
  return join(parts, "; ");
}

std::string figures_line(const Cell& cell) {
  std::vector<std::string> figures;
  for (const Arm arm : cell.arms()) {
    const auto seconds = arm.seconds();
    figures.push_back(fmt::format("{} {}", arm.name(),
                                  seconds ? format_seconds(std::optional<double>(seconds->value)) : "not timed"));
  }
  return join(figures, ", ");
}

std::vector<std::string> metric_lines(const Cell& cell, Glyphs glyphs) {
  struct Values {
    std::vector<std::string> texts, arms;
  };
  std::vector<std::string> names;
  std::map<std::string, Values> values;
  for (const MetricEntry metric : cell.metrics()) {
    const std::string name = metric.name();
    const auto value = metric.value();
    if (!values.contains(name)) {
      names.push_back(name);
    }
    values[name].texts.push_back(value ? format_metric(*value, metric.unit(), glyphs) : "not measured");
    values[name].arms.push_back(metric.arm());
  }
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    const auto& [texts, arms] = values[name];
    const bool is_of_engine = std::none_of(
        arms.begin(), arms.end(), [&](const std::string& arm) { return !arm.empty() && cell.arm(arm).is_external(); });
    if (is_of_engine && texts.size() > 1 &&
        std::count(texts.begin(), texts.end(), texts.front()) == std::ssize(texts)) {
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

std::vector<std::string> arm_names(const Run& run) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      const std::string name = arm.name();
      if (known.insert(name).second) {
        names.push_back(name);
      }
    }
  }
  return names;
}

std::vector<std::string> failed_arms(const Run& run) {
  std::vector<std::pair<std::string, std::string>> failures;  // arm and reason, in the order of the run
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> cells;
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      const std::pair failure{arm.name(), arm.failure()};
      if (failure.second.empty()) {
        continue;
      }
      if (!cells.contains(failure)) {
        failures.push_back(failure);
      }
      cells[failure].push_back(cell.workload());
    }
  }
  std::vector<std::string> lines;
  for (const auto& failure : failures) {
    lines.push_back(fmt::format("{} is INVALID in {}: {}", failure.first, join(cells[failure], ", "), failure.second));
  }
  return lines;
}

std::vector<std::string> cautions(const Run& run) {
  if (run.injected().is_object()) {
    return {
        "A slowdown was put into this run on purpose (--inject-...): its figures test a gate, they measure nothing."};
  }
  std::vector<std::string> sentences;
  if (!run.is_timed()) {
    return sentences;
  }
  if (run.size().name() == "quick") {
    sentences.emplace_back(
        "A quick run shows directions, not verdicts: measure with --standard before you rely on it.");
  }
  const Json& variables = member(member(run.environment(), "process"), "tuning_variables");
  const bool has_own = text(member(run.environment(), "engine"), "gemm") == "tiles";
  if (const std::string type = text(variables, "OPENBLAS_CORETYPE"); !type.empty() && !has_own) {
    sentences.push_back(fmt::format("OPENBLAS_CORETYPE={} chose the kernels of matrix products, not this processor.",
                                    shorten(printable(type), 40)));
  }
  return sentences;
}

std::string setup_line(const Run& run, Glyphs glyphs) {
  const Size size = run.size();
  if (!run.is_timed()) {
    return fmt::format("{}: seed {}, numerics {}", join(run.plan().metrics(), " and "), run.seed().dump(),
                       run.numerics());
  }
  const double threads = run.threads().value_or(1);
  return fmt::format("{}: {} processes {} {} rounds, seed {}, {} thread{}, numerics {}", size.name(),
                     format_count(size.processes().value_or(0)), glyphs == Glyphs::ascii ? "x" : "×",
                     format_count(size.rounds().value_or(0)), run.seed().dump(), format_count(threads),
                     threads == 1 ? "" : "s", run.numerics());
}

}  // namespace diptych::reports
