#include "reports/views/reproduction.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "framework/runtime/exact_metrics.h"
#include "reports/run/fingerprint.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/suggest.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

constexpr std::size_t kMostDifferences = 20;

std::string line(const char* label, const std::string& value) {
  return fmt::format("{:<10} {}\n", label, value.empty() ? "not recorded" : shorten(printable(value), 400));
}

bool is_shown(const Arm& arm, const std::string& chosen) { return chosen.empty() || arm.name() == chosen; }

std::string typical_time(const Arm& arm) {
  const auto seconds = arm.seconds();
  return seconds ? format_seconds(*seconds) : "not timed";
}

std::string figures(const Cell& cell, const std::string& chosen) {
  std::string out;
  for (const Arm arm : cell.arms()) {
    if (!is_shown(arm, chosen)) {
      continue;
    }
    std::string figure = fmt::format("{}: {}", arm.name(), typical_time(arm));
    if (const auto instructions = arm.instructions().value()) {
      figure += fmt::format(", {} instructions", format_count(*instructions));
    }
    for (const Comparison comparison : cell.comparisons()) {
      const auto speedup = comparison.speedup();
      if (comparison.arm() == arm.name() && speedup) {
        figure += fmt::format(", {} of {}, {}", format_ratio(*speedup), comparison.base(), verdict_text(comparison));
      }
    }
    out += line(out.empty() ? "recorded" : "", figure);
  }
  return out;
}

std::string revision_text(const Json& build) {
  const std::string revision = text(build, "git_sha");
  if (revision.empty()) {
    const std::string reason = text(member(build, "reasons"), "git_sha");
    return "revision not recorded" + (reason.empty() ? "" : fmt::format(" ({})", reason));
  }
  return fmt::format("revision {}{}", revision,
                     member(build, "git_dirty") == true ? " with changes that were not committed" : "");
}

std::string build_text(const Json& build) {
  const std::string hash = text(build, "sha256");
  return fmt::format("{}, SHA-256 {}", revision_text(build), hash.empty() ? "not recorded" : hash);
}

/// How to get the recorded program, if this is another one.
std::string rebuild(const Json& then, const Json& now) {
  if (same_program(then, now) || text(then, "git_sha").empty()) {
    return "";
  }
  return line("rebuild", member(then, "git_dirty") == true
                             ? "not possible: what was changed on top of the revision isn't known"
                             : "scripts/reproduce RUN.json [CELL] builds that revision, and lists what differs");
}

std::string differences(const Json& then, const Json& now) {
  std::vector<FingerprintField> fields = fingerprint_difference(then, now);
  // What Google Benchmark reports of the machine is known only once it has run.
  std::erase_if(fields, [](const FingerprintField& field) { return !field.matters || field.group == "benchmark"; });
  if (fields.empty()) {
    return line("differs", "nothing that matters: same build, same machine");
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(fields.size(), kMostDifferences); ++i) {
    out += line(i == 0 ? "differs" : "",
                fmt::format("{}: {} -> {}", fields[i].name, shorten(fields[i].base, 80), shorten(fields[i].head, 80)));
  }
  if (fields.size() > kMostDifferences) {
    out += line("", fmt::format("and {} more fields", fields.size() - kMostDifferences));
  }
  return out;
}

/// "yes", or why not.
std::string came_again(const Arm& recorded, const Arm& repeated) {
  const auto before = recorded.seconds();
  const auto after = repeated.seconds();
  if (before && after && before->has_interval() && after->has_interval()) {
    const bool apart = *before->high < *after->low || *after->high < *before->low;
    return apart ? "no: the intervals of the times don't overlap" : "yes: the intervals overlap";
  }
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    const Json then = count_json(recorded.exact(metric.name));
    const Json now = count_json(repeated.exact(metric.name));
    if (then != now) {
      return fmt::format("no: {} {} -> {}", metric.name, then.dump(), now.dump());
    }
  }
  return before || after ? "no intervals to compare" : "yes: the counts are equal";
}

}  // namespace

Cell cell_of(const Run& run, const std::string& workload) {
  if (const Cell cell = run.cell(workload)) {
    return cell;
  }
  std::vector<std::string> names;
  for (const Cell cell : run.cells()) {
    names.push_back(cell.workload());
  }
  throw Error(printable(unknown("cell", workload, names)));
}

std::string describe_number(const Run& run, const Cell& cell, const std::string& arm, const std::string& command,
                            const Json& environment) {
  const Json& then = run.environment();
  std::vector<std::string> seeds;
  for (const Process process : cell.processes()) {
    seeds.push_back(process.seed().dump());
  }
  std::string out = figures(cell, arm);
  out += line("measured", fmt::format("{}, {}", run.created(), setup_line(run)));
  out += line("command", command);
  if (run.injected().is_object()) {
    out += line("injected", "a slowdown on purpose: the figures measure nothing real");
  }
  out += line("seed", run.seed().dump());
  if (!seeds.empty()) {
    out += line("processes", fmt::format("seeds {}", fmt::join(seeds, ", ")));
  }
  out += line("build", build_text(member(then, "build")));
  out += line("here", build_text(member(environment, "build")));
  out += rebuild(member(then, "build"), member(environment, "build"));
  return out + differences(then, environment);
}

std::string describe_repetition(const Cell& recorded, const Cell& repeated, const std::string& arm) {
  TextTable table({"arm", "recorded", "now", "came out again"});
  for (const Arm before : recorded.arms()) {
    const Arm after = repeated.arm(before.name());
    if (is_shown(before, arm) && after) {
      table.add({printable(before.name()), typical_time(before), typical_time(after), came_again(before, after)});
    }
  }
  return table.empty() ? "" : table.render(false, 200);
}

}  // namespace diptych::reports
