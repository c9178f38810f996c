#include "reports/reproduction.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "reports/fingerprint.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/suggest.h"
#include "reports/summary.h"
#include "reports/text.h"
#include "reports/text_table.h"

namespace diptych::reports {
namespace {

constexpr std::size_t kMostDifferences = 20;

std::string line(const char* label, const std::string& value) {
  return fmt::format("{:<10} {}\n", label, value.empty() ? "not recorded" : shorten(printable(value), 400));
}

bool is_shown(const Json& arm, const std::string& chosen) { return chosen.empty() || text(arm, "name") == chosen; }

std::string typical_time(const Json& arm) {
  const auto seconds = estimate(member(arm, "seconds"));
  return seconds ? format_seconds(*seconds) : "not timed";
}

std::string figures(const Json& cell, const std::string& chosen) {
  std::string out;
  for (const Json& arm : list(cell, "arms")) {
    if (!is_shown(arm, chosen)) {
      continue;
    }
    std::string figure = fmt::format("{}: {}", text(arm, "name"), typical_time(arm));
    if (const auto instructions = number(member(arm, "instructions"), "value")) {
      figure += fmt::format(", {} instructions", format_count(*instructions));
    }
    for (const Json& comparison : list(cell, "comparisons")) {
      const auto speedup = estimate(member(comparison, "speedup"));
      if (text(comparison, "arm") == text(arm, "name") && speedup) {
        figure +=
            fmt::format(", {} of {}, {}", format_ratio(*speedup), text(comparison, "base"), verdict_text(comparison));
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

/// How to get the recorded program, where this is another one.
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
  // What Google Benchmark says of the machine is known only once it has run.
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
std::string came_again(const Json& recorded, const Json& repeated) {
  const auto before = estimate(member(recorded, "seconds"));
  const auto after = estimate(member(repeated, "seconds"));
  if (before && after && before->has_interval() && after->has_interval()) {
    const bool apart = *before->high < *after->low || *after->high < *before->low;
    return apart ? "no: the intervals of the times don't overlap" : "yes: the intervals overlap";
  }
  for (const auto& [name, value] : member(recorded, "exact").items()) {
    if (member(member(repeated, "exact"), name) != value) {
      return fmt::format("no: {} {} -> {}", name, value.dump(), member(member(repeated, "exact"), name).dump());
    }
  }
  return before || after ? "no intervals to compare" : "yes: the counts are equal";
}

}  // namespace

const Json& cell_of(const Json& run, const std::string& workload) {
  std::vector<std::string> names;
  for (const Json& cell : list(run, "cells")) {
    if (text(cell, "workload") == workload) {
      return cell;
    }
    names.push_back(text(cell, "workload"));
  }
  throw Error(printable(unknown("cell", workload, names)));
}

std::string describe_number(const Json& run, const Json& cell, const std::string& arm, const std::string& command,
                            const Json& environment) {
  const Json& then = member(run, "environment");
  std::vector<std::string> seeds;
  for (const Json& process : list(cell, "processes")) {
    seeds.push_back(member(process, "seed").dump());
  }
  std::string out = figures(cell, arm);
  out += line("measured", fmt::format("{}, {}", text(run, "created"), setup_line(run)));
  out += line("command", command);
  if (member(run, "injected").is_object()) {
    out += line("injected", "a slowdown on purpose: the figures measure nothing real");
  }
  out += line("seed", member(run, "seed").dump());
  if (!seeds.empty()) {
    out += line("processes", fmt::format("seeds {}", fmt::join(seeds, ", ")));
  }
  out += line("build", build_text(member(then, "build")));
  out += line("here", build_text(member(environment, "build")));
  out += rebuild(member(then, "build"), member(environment, "build"));
  return out + differences(then, environment);
}

std::string describe_repetition(const Json& recorded, const Json& repeated, const std::string& arm) {
  TextTable table({"arm", "recorded", "now", "came out again"});
  for (const Json& before : list(recorded, "arms")) {
    const Json& after = find_arm(repeated, text(before, "name"));
    if (is_shown(before, arm) && after.is_object()) {
      table.add(
          {printable(text(before, "name")), typical_time(before), typical_time(after), came_again(before, after)});
    }
  }
  return table.empty() ? "" : table.render(false, 200);
}

}  // namespace diptych::reports
