#include "workloads/harness/instructions.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"
#include "framework/io/json_text.h"
#include "workloads/processes/child.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kCountedFunction = "diptych_counted_calls";

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) {
      return candidate;
    }
  }
  return "";
}

/// The variables that may affect the counts, at fixed values, and those that locate data and libraries, which don't
/// affect them.
std::vector<std::string> fixed_environment() {
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "DIPTYCH_ISA=avx2",
                                          "OPENBLAS_CORETYPE=Haswell", "OPENBLAS_NUM_THREADS=1"};
  for (const char* name : {"DIPTYCH_DATA", "LD_LIBRARY_PATH", "VALGRIND_LIB", "TMPDIR"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      environment.push_back(fmt::format("{}={}", name, value));
    }
  }
  return environment;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The rest of the first line that starts with `key`.
std::optional<std::string> line_after(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) {
      return line.substr(key.size());
    }
  }
  return std::nullopt;
}

struct Stopped {};

/// Starts valgrind once and returns the counts of all arms, in `arms`' order. Throws Stopped, or Error with the reason
/// if there are no counts.
std::map<std::string, json> count_once(const CountingPlan& plan, const std::string& valgrind,
                                       const std::vector<std::string>& worker_command,
                                       const std::map<std::string, std::int64_t>& extra) {
  const TemporaryFolder scratch("diptych-callgrind");
  const std::string out = (scratch.path() / "out").string();
  std::vector<std::string> command = {valgrind,
                                      "-q",
                                      "--tool=callgrind",
                                      fmt::format("--toggle-collect={}", kCountedFunction),
                                      fmt::format("--dump-after={}", kCountedFunction),
                                      fmt::format("--callgrind-out-file={}", out),
                                      fmt::format("--log-file={}", (scratch.path() / "log").string())};
  command.insert(command.end(), worker_command.begin(), worker_command.end());
  const WorkerPlan counting{.workloads = {plan.workload},
                            .arms = plan.arms,
                            .settings = {.seed = plan.seed},
                            .gemm = plan.gemm,
                            .counts_instructions = true,
                            .extra_instructions = extra};
  const std::vector<std::string> arguments = worker_arguments(counting, plan.protocol);
  command.insert(command.end(), arguments.begin(), arguments.end());

  Child child(command, fixed_environment());
  const auto begin = std::chrono::steady_clock::now();
  const auto check_limits = [&] {
    if (plan.stop != nullptr && plan.stop->load()) {
      throw Stopped();
    }
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > plan.timeout) {
      throw Error(
          fmt::format("counting {} under valgrind took longer than {:.6g} s and was stopped; --instructions-timeout "
                      "SECONDS gives it "
                      "more",
                      plan.workload, plan.timeout));
    }
  };
  std::vector<json> counted;
  std::string problem;
  bool done = false;
  std::string line;
  for (Child::Read read = Child::Read::timeout; read != Child::Read::end; read = child.read_line(line, 100)) {
    check_limits();
    const json event = read == Child::Read::line ? io::json_or_discarded(line) : json();
    const std::string kind = event.is_object() ? event.value("event", "") : "";
    if (kind == "counted") {
      counted.push_back(event);
    } else if (kind == "error") {
      problem = event.value("message", "");
    }
    done = done || kind == "done";
  }
  std::string end;
  while (!child.has_ended(end)) {
    check_limits();
    poll(nullptr, 0, 20);
  }
  if (!problem.empty() || !end.empty() || !done) {
    std::string log = read_file(scratch.path() / "log");
    log = log.substr(0, log.find('\n'));
    throw Error(!problem.empty() ? problem
                                 : fmt::format("valgrind {}{}{}", end.empty() ? "ended before it was done" : end,
                                               log.empty() ? "" : ": ", log));
  }

  if (counted.size() != plan.arms.size()) {
    throw Error(fmt::format("valgrind counted {} of {} arms", counted.size(), plan.arms.size()));
  }
  std::map<std::string, json> result;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const std::string text = read_file(fmt::format("{}.{}", out, i + 1));
    const std::int64_t total = callgrind_total(text);
    const std::string arm = counted[i]["arm"];
    result[arm] = {{"value", static_cast<double>(total) / static_cast<double>(kCountedCalls)},
                   {"isa", counted[i]["isa"]},
                   {"calls", kCountedCalls},
                   {"tool", line_after(text, "creator: ").value_or("callgrind")}};
  }
  return result;
}

std::map<std::string, json> without_value(const CountingPlan& plan, const std::string& reason) {
  std::map<std::string, json> result;
  for (const std::string& arm : plan.arms) {
    result[arm] = {{"value", nullptr}, {"reason", reason}};
  }
  return result;
}

}  // namespace

std::int64_t callgrind_total(const std::string& text) {
  const std::optional<std::string> summary = line_after(text, "summary: ");
  std::int64_t total = 0;
  const char* const end = summary ? summary->data() + summary->size() : nullptr;
  const bool read = summary && std::from_chars(summary->data(), end, total).ec == std::errc();
  if (!read || total <= 0) {
    throw Error(
        fmt::format("callgrind counted nothing in {}: was the program stripped of its symbols?", kCountedFunction));
  }
  return total;
}

std::map<std::string, json> count_instructions(const CountingPlan& plan,
                                               const std::vector<std::string>& worker_command) {
  try {
    const std::string valgrind = plan.valgrind.empty() ? find_program("valgrind") : plan.valgrind;
    if (valgrind.empty()) {
      return without_value(plan, "valgrind is not installed (Debian: apt install valgrind)");
    }
    std::map<std::string, json> result = count_once(plan, valgrind, worker_command, {});
    if (plan.injection.instructions > 0) {
      std::map<std::string, std::int64_t> extra;
      for (const auto& [arm, count] : result) {
        if (plan.injection.hits(arm)) {
          extra[arm] = static_cast<std::int64_t>(count["value"].get<double>() * plan.injection.instructions);
        }
      }
      result = count_once(plan, valgrind, worker_command, extra);
    }
    return result;
  } catch (const Stopped&) {
    return {};
  } catch (const std::exception& error) {
    return without_value(plan, error.what());
  }
}

}  // namespace diptych::workloads
