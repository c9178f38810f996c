#include "reports/run/google_benchmark.h"

#include <vector>

#include <fmt/ranges.h>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

Json context_of(const Run& run) {
  const Json& environment = run.environment();
  const Json& measured = member(environment, "benchmark");
  const Json& cpu = member(environment, "cpu");
  const Json& build = member(environment, "build");
  const std::vector<std::string> command = run.command();
  const std::string first = command.empty() ? "diptych" : fmt::format("{}", fmt::join(command, " "));
  return {{"date", run.created()},
          {"host_name", ""},
          {"executable", printable(first)},
          {"num_cpus", whole_count(number(measured, "num_cpus").value_or(number(cpu, "threads").value_or(1)))},
          {"cpu_model", printable(text(cpu, "model"))},
          {"kernel", printable(text(member(environment, "os"), "kernel"))},
          {"mhz_per_cpu", number(measured, "mhz_per_cpu").value_or(number(cpu, "current_mhz").value_or(0))},
          {"cpu_scaling_enabled", member(measured, "cpu_scaling_enabled") == true},
          {"caches", list(measured, "caches")},
          {"load_avg", list(measured, "load_avg")},
          {"library_build_type", member(build, "optimised") == false ? "debug" : "release"}};
}

}  // namespace

std::string quote_non_finite(const std::string& text) {
  static const std::vector<std::string> words = {"NaN", "-NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf"};
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) {
        out += text[++i];
      }
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    std::size_t length = 0;
    for (const std::string& word : words) {
      if (text.compare(i, word.size(), word) == 0) {
        length = std::max(length, word.size());
      }
    }
    if (length > 0) {
      out += '"' + text.substr(i, length) + '"';
      i += length - 1;
    } else {
      out += c;
    }
  }
  return out;
}

bool is_google_benchmark(const Json& document) {
  return document.is_object() && document.contains("benchmarks") && !document.contains("schema");
}

Json to_google_benchmark(const Run& run) {
  Json benchmarks = Json::array();
  std::size_t family = 0;
  for (const Cell cell : run.cells()) {
    const Parts<Process> processes = cell.processes();
    for (const Arm arm : cell.arms()) {
      const std::string arm_name = arm.name();
      const std::string name = cell.workload() + "/" + arm_name;
      std::size_t repetition = 0;
      for (const Process process : processes) {
        const std::vector<double> seconds = process.seconds(arm_name);
        if (seconds.empty()) {
          continue;
        }
        const double nanoseconds = 1e9 * median(seconds);
        benchmarks.push_back({{"name", name},
                              {"family_index", family},
                              {"per_family_instance_index", 0},
                              {"run_name", name},
                              {"run_type", "iteration"},
                              {"repetitions", processes.size()},
                              {"repetition_index", repetition++},
                              {"threads", run.threads().value_or(1)},
                              {"iterations", std::int64_t{whole_count(process.iterations().value_or(1))} *
                                                 static_cast<std::int64_t>(seconds.size())},
                              {"real_time", nanoseconds},
                              {"cpu_time", nanoseconds},
                              {"time_unit", "ns"}});
      }
      if (!cell.validity().agree()) {
        benchmarks.push_back({{"name", name},
                              {"family_index", family},
                              {"per_family_instance_index", 0},
                              {"run_name", name},
                              {"run_type", "iteration"},
                              {"repetitions", 1},
                              {"repetition_index", 0},
                              {"threads", 1},
                              {"error_occurred", true},
                              {"error_message", cell.validity().reason()},
                              {"iterations", 0},
                              {"real_time", 0.0},
                              {"cpu_time", 0.0},
                              {"time_unit", "ns"}});
      }
      ++family;
    }
  }
  return {{"context", context_of(run)}, {"benchmarks", std::move(benchmarks)}};
}

}  // namespace diptych::reports
