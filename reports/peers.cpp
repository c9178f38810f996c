#include "reports/peers.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/summary.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

std::string cell_text(const std::string& text) { return escape_markdown(shorten(printable(text), 300)); }

const Json& comparison_of(const Json& cell, const std::string& arm) {
  for (const Json& comparison : list(cell, "comparisons")) {
    if (text(comparison, "arm") == arm) {
      return comparison;
    }
  }
  static const Json none;
  return none;
}

std::string times(const Json& run, const std::vector<std::string>& names) {
  std::string out = "| workload |";
  std::string line = "|---|";
  for (const std::string& name : names) {
    out += fmt::format(" {} |", cell_text(name));
    line += "--:|";
  }
  out += "\n" + line + "\n";
  for (const Json& cell : list(run, "cells")) {
    out += fmt::format("| {} |", cell_text(text(cell, "workload")));
    for (const std::string& name : names) {
      const auto seconds = estimate(member(find_arm(cell, name), "seconds"));
      const auto speedup = estimate(member(comparison_of(cell, name), "speedup"));
      const std::string verdict = text(member(comparison_of(cell, name), "verdict"), "verdict");
      const bool is_doubtful = verdict == "CONTAMINATED" || verdict == "INVALID";
      if (!seconds) {
        out += " - |";
      } else {
        out += fmt::format(" {}{}{} |", format_seconds(seconds->value, Glyphs::typographic),
                           speedup ? fmt::format(" ({})", format_ratio(*speedup, Glyphs::typographic)) : "",
                           is_doubtful ? " " + verdict : "");
      }
    }
    out += "\n";
  }
  return out;
}

/// Median over a cell's processes of what an arm says of itself.
std::optional<double> of_processes(const Json& cell, const std::string& arm, const char* field) {
  std::vector<double> values;
  for (const Json& process : list(cell, "processes")) {
    for (const Json& entry : list(process, "arms")) {
      if (const auto value = number(entry, field); value && text(entry, "name") == arm) {
        values.push_back(*value);
      }
    }
  }
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::string starts(const Json& run, const std::vector<std::string>& names) {
  std::string out =
      "| workload | arm | start | load | compile | first call | protocol, a block |\n"
      "|---|---|--:|--:|--:|--:|--:|\n";
  for (const Json& cell : list(run, "cells")) {
    for (const std::string& name : names) {
      if (!number(find_arm(cell, name), "first_call_seconds")) {
        continue;
      }
      const auto shown = [&](const char* field) {
        return format_seconds(of_processes(cell, name, field), Glyphs::typographic);
      };
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cell_text(text(cell, "workload")), cell_text(name),
                         shown("start_seconds"), shown("load_seconds"), shown("compile_seconds"),
                         shown("first_call_seconds"), shown("protocol_seconds"));
    }
  }
  return out;
}

std::string missing_arms(const Json& run) {
  std::string out;
  for (const std::string& line : failed_arms(run)) {
    out += fmt::format("- {}\n", cell_text(line));
  }
  return out.empty() ? out : "Missing, and why:\n\n" + out;
}

std::string frameworks(const Json& run) {
  std::map<std::string, std::string> said;
  const Json& environment = member(run, "environment");
  said["eager, graph"] = fmt::format("Diptych {}, {}", text(member(environment, "build"), "version"),
                                     text(member(environment, "engine"), "blas"));
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      if (const std::string framework = text(member(arm, "external"), "framework"); !framework.empty()) {
        said[text(arm, "name")] = framework;
      }
    }
  }
  std::string out;
  for (const auto& [name, framework] : said) {
    out += fmt::format("- {}: {}\n", cell_text(name), cell_text(framework));
  }
  // Libraries of all arms obey these: OPENBLAS_CORETYPE alone may halve the speed of those that use OpenBLAS.
  std::vector<std::string> set;
  for (const auto& [variable, value] : member(member(environment, "process"), "tuning_variables").items()) {
    set.push_back(fmt::format("{}={}", variable, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  if (!set.empty()) {
    out += fmt::format("\nSet in the environment: {}\n", cell_text(fmt::format("{}", fmt::join(set, ", "))));
  }
  return out;
}

}  // namespace

std::string render_peers(const nlohmann::json& run) {
  const std::vector<std::string> names = arm_names(run);
  const Json& size = member(run, "size");
  std::string out = fmt::format(
      "# Beside other frameworks\n\n"
      "Each arm takes part in the same rounds, checked against eager before them and after ([arms.md](arms.md)). One "
      "machine's figures: compare ratios, not times, and take your own.\n\n"
      "{}\n{}: {} processes of {} rounds, one thread, seed {}. In parentheses how many times as fast as eager, with "
      "the "
      "95 % interval.\n\n",
      markdown_code_block(joined(list(run, "command"), " ")),
      cell_text(text(member(member(run, "environment"), "cpu"), "model")), number(size, "processes").value_or(0),
      number(size, "rounds").value_or(0), member(run, "seed").dump());
  out += times(run, names) + "\nBefore the first result:\n\n" + starts(run, names) + "\n";
  if (const std::string why = missing_arms(run); !why.empty()) {
    out += why + "\n";
  }
  out += frameworks(run);
  return out;
}

}  // namespace diptych::reports
