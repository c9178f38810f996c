#include "reports/views/peers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/run/run.h"
#include "reports/run/verdicts.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

std::string cell_text(const std::string& text) { return escape_markdown(shorten(printable(text), 300)); }

/// A header with columns of words, and then one of figures for each name.
std::string header(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  std::string out = "|";
  std::string line = "|";
  for (const std::string& word : words) {
    out += fmt::format(" {} |", word);
    line += "---|";
  }
  for (const std::string& name : names) {
    out += fmt::format(" {} |", cell_text(name));
    line += "--:|";
  }
  return out + "\n" + line + "\n";
}

std::string times(const Run& run, const std::vector<std::string>& names) {
  std::string out = header({"workload"}, names);
  for (const Cell cell : run.cells()) {
    out += fmt::format("| {} |", cell_text(cell.workload()));
    for (const std::string& name : names) {
      const auto seconds = cell.arm(name).seconds();
      const auto speedup = cell.comparison(name).speedup();
      const std::optional<Verdict> verdict = cell.comparison(name).verdict().verdict();
      if (!seconds) {
        out += " - |";
      } else {
        out += fmt::format(" {}{}{} |", format_seconds(seconds->value, Glyphs::typographic),
                           speedup ? fmt::format(" ({})", format_ratio(*speedup, Glyphs::typographic)) : "",
                           is_unusable(verdict) ? fmt::format(" {}", name_of(*verdict)) : "");
      }
    }
    out += "\n";
  }
  return out;
}

/// How many times as fast as another framework the graph is; "-": not measured in the same rounds.
std::string graph_against(const Cell& cell, const std::string& arm, Glyphs glyphs) {
  const auto speedup = cell.comparison(arm).graph_speedup();
  return speedup ? format_ratio(*speedup, glyphs) : "-";
}

/// The graph against each of the other frameworks; empty if there is none.
std::string graphs(const Run& run, const std::vector<std::string>& names) {
  std::vector<std::string> others;
  const Parts<Cell> cells = run.cells();
  for (const std::string& name : names) {
    if (std::any_of(cells.begin(), cells.end(),
                    [&](const Cell& cell) { return cell.comparison(name).graph_speedup().has_value(); })) {
      others.push_back(name);
    }
  }
  if (others.empty()) {
    return "";
  }
  std::string out = "\nHow many times as fast as each of them graph is:\n\n" + header({"workload"}, others);
  for (const Cell cell : cells) {
    out += fmt::format("| {} |", cell_text(cell.workload()));
    for (const std::string& name : others) {
      out += fmt::format(" {} |", graph_against(cell, name, Glyphs::typographic));
    }
    out += "\n";
  }
  return out;
}

/// The median over a cell's processes of a figure that they report of an arm.
std::optional<double> of_processes(const std::vector<Process>& processes, const std::string& arm, Said field) {
  const std::vector<double> values = said_of(processes, arm, field);
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::string starts(const Run& run, const std::vector<std::string>& names) {
  std::string out =
      "| workload | arm | start | load | compile | first call | protocol, a block |\n"
      "|---|---|--:|--:|--:|--:|--:|\n";
  for (const Cell cell : run.cells()) {
    const std::vector<Process> processes = cell.processes().all();
    for (const std::string& name : names) {
      if (!cell.arm(name).first_call_seconds()) {
        continue;
      }
      const auto shown = [&](Said field) {
        return format_seconds(of_processes(processes, name, field), Glyphs::typographic);
      };
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cell_text(cell.workload()), cell_text(name),
                         shown(&ArmOfProcess::start_seconds), shown(&ArmOfProcess::load_seconds),
                         shown(&ArmOfProcess::compile_seconds), shown(&ArmOfProcess::first_call_seconds),
                         shown(&ArmOfProcess::protocol_seconds));
    }
  }
  return out;
}

/// What other frameworks' arms have counted, with the names in the order of their first occurrence.
std::vector<std::string> counted_names(const Run& run) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const Cell cell : run.cells()) {
    for (const MetricEntry metric : cell.metrics()) {
      if (!known.contains(metric.name()) && cell.arm(metric.arm()).is_external()) {
        known.insert(metric.name());
        names.push_back(metric.name());
      }
    }
  }
  return names;
}

using MetricsByArm = std::map<std::string, std::vector<MetricEntry>>;

MetricsByArm metrics_by_arm(const Cell& cell) {
  MetricsByArm metrics;
  for (const MetricEntry metric : cell.metrics()) {
    metrics[metric.arm()].push_back(metric);
  }
  return metrics;
}

/// An arm's, in the order of `names`; empty if it has none of them.
std::vector<std::string> counts_of(const MetricsByArm& metrics, const Arm& arm, const std::vector<std::string>& names,
                                   Glyphs glyphs) {
  std::vector<std::string> texts(names.size(), "-");
  bool is_any = false;
  const auto own = metrics.find(arm.name());
  if (own == metrics.end()) {
    return {};
  }
  for (const MetricEntry& metric : own->second) {
    const auto name = std::find(names.begin(), names.end(), metric.name());
    const auto value = metric.value();
    if (name != names.end() && value) {
      texts[static_cast<std::size_t>(name - names.begin())] = format_metric(*value, metric.unit(), glyphs);
      is_any = true;
    }
  }
  return is_any && arm.is_external() ? texts : std::vector<std::string>{};
}

std::string counts(const Run& run) {
  const std::vector<std::string> names = counted_names(run);
  if (names.empty()) {
    return "";
  }
  std::string out =
      "What their compilers have counted, until after the rounds:\n\n" + header({"workload", "arm"}, names);
  for (const Cell cell : run.cells()) {
    const MetricsByArm metrics = metrics_by_arm(cell);
    for (const Arm arm : cell.arms()) {
      const std::vector<std::string> texts = counts_of(metrics, arm, names, Glyphs::typographic);
      if (!texts.empty()) {
        out += fmt::format("| {} | {} | {} |\n", cell_text(cell.workload()), cell_text(arm.name()),
                           fmt::join(texts, " | "));
      }
    }
  }
  return out + "\n";
}

std::string missing_arms(const Run& run) {
  std::string out;
  for (const std::string& line : failed_arms(run)) {
    out += fmt::format("- {}\n", escape_markdown(line));  // not shortened: it ends with how to get the arm
  }
  return out.empty() ? out : "Missing, and why:\n\n" + out;
}

/// [arm] -> its framework, with versions.
std::map<std::string, std::string> frameworks(const Run& run) {
  std::map<std::string, std::string> said;
  const Json& environment = run.environment();
  const Json& engine = member(environment, "engine");
  said["eager, graph"] =
      fmt::format("Diptych {}, {}", text(member(environment, "build"), "version"),
                  text(engine, "gemm") == "tiles" ? "its own matrix products" : text(engine, "blas"));
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      if (const std::string framework = arm.framework(); !framework.empty()) {
        said[arm.name()] = framework;
      }
    }
  }
  return said;
}

/// The tuning variables that are set in the environment. They affect the libraries of all arms: OPENBLAS_CORETYPE alone
/// may halve the speed of those that use OpenBLAS.
std::string tuning(const Run& run) {
  std::vector<std::string> set;
  for (const auto& [variable, value] : member(member(run.environment(), "process"), "tuning_variables").items()) {
    set.push_back(fmt::format("{}={}", variable, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return fmt::format("{}", fmt::join(set, ", "));
}

std::string markdown_frameworks(const Run& run) {
  std::string out;
  for (const auto& [name, framework] : frameworks(run)) {
    out += fmt::format("- {}: {}\n", cell_text(name), cell_text(framework));
  }
  if (const std::string set = tuning(run); !set.empty()) {
    out += fmt::format("\nSet in the environment: {}\n", cell_text(set));
  }
  return out;
}

/// What rows about arms look up in their cell.
struct CellOfRows {
  Cell cell;
  std::vector<Process> processes;
  MetricsByArm metrics;
};

/// One row per arm; only the first one of a workload names it.
template <typename AddRow>
void for_each_timed_arm(const Run& run, const AddRow& add_row) {
  for (const Cell cell : run.cells()) {
    const CellOfRows of_rows{cell, cell.processes().all(), metrics_by_arm(cell)};
    std::string workload = shorten(printable(cell.workload()), 40);
    for (const Arm arm : cell.arms()) {
      if (arm.first_call_seconds()) {
        add_row(of_rows, arm, workload);
        workload.clear();
      }
    }
  }
}

std::string times_table(const Run& run, const TableOptions& options) {
  TextTable table({"workload", "arm", "time", "as fast as eager", "verdict", "graph against it"});
  for_each_timed_arm(run, [&](const CellOfRows& of, const Arm& arm, const std::string& workload) {
    const std::string name = arm.name();
    const Comparison comparison = of.cell.comparison(name);
    const auto seconds = arm.seconds();
    const auto speedup = comparison.speedup();
    table.add({workload, shorten(printable(name), 24), format_seconds(value_of(seconds)),
               speedup ? format_ratio(*speedup) : "-", comparison ? verdict_text(comparison) : "",
               arm.is_external() ? graph_against(of.cell, name, Glyphs::ascii) : ""},
              verdict_tone(comparison));
  });
  return table.render(options.colour, options.width);
}

std::string starts_table(const Run& run, const TableOptions& options) {
  TextTable table({"before the first result", "arm", "start", "load", "compile", "first call", "protocol, a block"});
  for_each_timed_arm(run, [&](const CellOfRows& of, const Arm& arm, const std::string& workload) {
    const std::string name = arm.name();
    const auto shown = [&](Said field) { return format_seconds(of_processes(of.processes, name, field)); };
    table.add({workload, shorten(printable(name), 24), shown(&ArmOfProcess::start_seconds),
               shown(&ArmOfProcess::load_seconds), shown(&ArmOfProcess::compile_seconds),
               shown(&ArmOfProcess::first_call_seconds), shown(&ArmOfProcess::protocol_seconds)});
  });
  return table.render(options.colour, options.width);
}

std::string counts_table(const Run& run, const TableOptions& options) {
  const std::vector<std::string> names = counted_names(run);
  if (names.empty()) {
    return "";
  }
  std::vector<std::string> header{"counted by compilers", "arm"};
  for (const std::string& name : names) {
    header.push_back(shorten(printable(name), 24));
  }
  TextTable table(header);
  for_each_timed_arm(run, [&](const CellOfRows& of, const Arm& arm, const std::string& /*workload*/) {
    std::vector<std::string> texts = counts_of(of.metrics, arm, names, Glyphs::ascii);
    if (!texts.empty()) {
      texts.insert(texts.begin(), {shorten(printable(of.cell.workload()), 40), shorten(printable(arm.name()), 24)});
      table.add(texts);
    }
  });
  return table.render(options.colour, options.width) + "\n";
}

}  // namespace

std::string render_peers(const Run& run) {
  const std::vector<std::string> names = arm_names(run);
  const Size size = run.size();
  std::string out = fmt::format(
      "# Beside other frameworks\n\n"
      "Each arm takes part in the same rounds, checked against eager before them and after ([arms.md](arms.md)). One "
      "machine's figures: compare ratios, not times, and take your own.\n\n"
      "{}\n{}: {} processes of {} rounds, one thread, seed {}. In parentheses how many times as fast as eager, with "
      "the "
      "95 % interval.\n\n",
      markdown_code_block(fmt::format("{}", fmt::join(run.command(), " "))),
      cell_text(text(member(run.environment(), "cpu"), "model")), size.processes().value_or(0),
      size.rounds().value_or(0), run.seed().dump());
  out += times(run, names) + graphs(run, names) + "\nBefore the first result:\n\n" + starts(run, names) + "\n" +
         counts(run);
  if (const std::string why = missing_arms(run); !why.empty()) {
    out += why + "\n";
  }
  out += markdown_frameworks(run);
  return out;
}

std::string render_peers_table(const Run& run, const TableOptions& options) {
  std::string out = times_table(run, options) + "\n" + starts_table(run, options) + "\n" + counts_table(run, options);
  for (const std::string& line : failed_arms(run)) {
    out += wrapped("", "missing: " + printable(line), options.width, options.colour);
  }
  for (const auto& [name, framework] : frameworks(run)) {
    out += wrapped("", printable(name + ": " + framework), options.width, options.colour);
  }
  if (const std::string set = tuning(run); !set.empty()) {
    out += wrapped("", printable("set in the environment: " + set), options.width, options.colour);
  }
  return out;
}

}  // namespace diptych::reports
