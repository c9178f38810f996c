#include "cli/names.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/model_file.h"
#include "cli/suggest.h"
#include "framework/io/leftovers.h"
#include "workloads/workload.h"

namespace diptych::cli {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

std::vector<std::string> workload_names() { return workloads::names_of_suite("all"); }

std::vector<std::string> arm_names() {
  std::vector<std::string> names;
  for (const workloads::Arm& arm : workloads::all_arms()) {
    names.push_back(arm.name);
  }
  return names;
}

std::vector<std::string> known_arm_names() {
  std::vector<std::string> names = arm_names();
  for (const workloads::Arm* external : workloads::external_arms()) {
    names.push_back(external->name);
  }
  return names;
}

/// The arm of that name. Throws Error with the nearest of `candidates` if there is none.
const workloads::Arm& known_arm(const std::string& name, const std::vector<std::string>& candidates) {
  const workloads::Arm* arm = workloads::find_arm(name);
  if (arm == nullptr) {
    throw Error(unknown("arm", name, candidates));
  }
  return *arm;
}

/// The elements of `all` that are in `chosen`, in the order of `all`.
std::vector<std::string> in_order(const std::vector<std::string>& all, const std::vector<std::string>& chosen) {
  std::vector<std::string> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [&](const std::string& name) { return std::find(chosen.begin(), chosen.end(), name) != chosen.end(); });
  return result;
}

std::vector<std::string> with_prefix(const std::vector<std::string>& all, const std::string& prefix) {
  std::vector<std::string> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [&](const std::string& name) { return name.starts_with(prefix); });
  return result;
}

/// Those that a word names which is no file: a workload, a suite, "all", or a workload without its size. In the suites'
/// order; empty if there are none.
std::vector<std::string> workloads_named(const std::string& word) {
  if (std::vector<std::string> suite = workloads::names_of_suite(word); !suite.empty()) {
    return suite;
  }
  const std::vector<std::string> all = workload_names();
  return std::find(all.begin(), all.end(), word) != all.end() ? std::vector<std::string>{word}
                                                              : with_prefix(all, word + "-");
}

std::vector<std::string> workloads_and_suites() {
  std::vector<std::string> names = workload_names();
  const std::vector<std::string> suites = workloads::suite_names();
  names.insert(names.end(), suites.begin(), suites.end());
  names.emplace_back("all");
  return names;
}

}  // namespace

std::vector<std::string> resolve_workloads(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return workloads::names_of_default_set();
  }
  const std::vector<std::string> all = workload_names();
  std::vector<std::string> chosen;
  std::vector<std::string> models;  // and graphs, from files, in the order of the arguments
  for (const std::string& argument : arguments) {
    if (workloads::is_file_name(argument)) {
      models.push_back(resolve_workload(argument).name);
    } else if (const auto named = workloads_named(argument); !named.empty()) {
      chosen.insert(chosen.end(), named.begin(), named.end());
    } else {
      check_model_file(argument);
      throw Error(unknown("workload or suite", argument, workloads_and_suites()));
    }
  }
  std::vector<std::string> result = in_order(all, chosen);
  for (const std::string& model : models) {
    if (std::find(result.begin(), result.end(), model) == result.end()) {
      result.push_back(model);
    }
  }
  return result;
}

std::string folded(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::vector<std::string>>> stems;  // with their sizes
  for (const std::string& name : names) {
    const std::size_t last = name.find_last_not_of("0123456789");
    const bool has_size = last + 1 < name.size() && name[last] == '-';
    const std::string stem = has_size ? name.substr(0, last + 1) : name;
    if (stems.empty() || stems.back().first != stem) {
      stems.push_back({stem, {}});
    }
    stems.back().second.push_back(name.substr(stem.size()));
  }
  std::string text;
  for (const auto& [stem, sizes] : stems) {
    const char* form = sizes.size() > 1 ? "{}{}{{{}}}" : "{}{}{}";
    text += fmt::format(fmt::runtime(form), text.empty() ? "" : ", ", stem, fmt::join(sizes, ","));
  }
  return text;
}

const workloads::Workload& resolve_workload(const std::string& name) {
  if (workloads::is_file_name(name)) {
    check_model_file(name);
    return *workloads::find_workload(name);
  }
  const std::vector<std::string> named = workloads_named(name);
  if (named.empty()) {
    check_model_file(name);
    throw Error(unknown("workload", name, workload_names()));
  }
  if (named.size() > 1) {
    throw Error(fmt::format("'{}' is {} workloads, and this takes one: say {}", name, named.size(), folded(named)));
  }
  return *workloads::find_workload(named.front());
}

std::vector<std::string> resolve_arms(const std::vector<std::string>& arguments, int threads) {
  const std::vector<std::string> chosen =
      arguments.empty() ? std::vector<std::string>{"eager", "replay", "graph"} : arguments;
  std::vector<std::string> names;
  for (const std::string& argument : chosen) {
    if (argument == "ladder") {
      const std::vector<std::string> ladder = workloads::ladder_arms(threads);
      names.insert(names.end(), ladder.begin(), ladder.end());
    } else {
      std::vector<std::string> candidates = known_arm_names();
      candidates.emplace_back("ladder");
      names.push_back(known_arm(argument, candidates).name);
    }
  }
  // In the ladder's order; other sets of passes follow, in the order of the arguments.
  const std::vector<std::string> listed = arm_names();
  std::vector<std::string> result = in_order(listed, names);
  for (const std::string& name : names) {
    if (std::find(result.begin(), result.end(), name) == result.end()) {
      result.push_back(name);
    }
  }
  return result;
}

const workloads::Arm& resolve_arm(const std::string& name) { return known_arm(name, known_arm_names()); }

void refuse_external_arms(const std::vector<std::string>& arms, const std::string& verb) {
  for (const std::string& name : arms) {
    if (resolve_arm(name).is_external()) {
      throw Error(
          fmt::format("{} takes no arms of other frameworks: leave {} out (`run` and `peers` take it)", verb, name));
    }
  }
}

std::string file_name(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += plain ? c : '-';
  }
  constexpr std::size_t kLongest = 100;  // file systems allow 255 bytes, and more is added before and after it
  if (result.size() > kLongest) {
    result.resize(kLongest);
    result += fmt::format("-{:016x}", fnv1a(name));
  }
  return result;
}

namespace {

/// As make_output_folder() names them: what is in there is ours.
bool is_output_folder(const std::string& name) {
  constexpr std::string_view kPattern = "00000000T000000Z-";
  return name.size() > kPattern.size() &&
         std::equal(kPattern.begin(), kPattern.end(), name.begin(), [](char wanted, char found) {
           return wanted == '0' ? found >= '0' && found <= '9' : wanted == found;
         });
}

/// What killed runs have left of unfinished files.
void remove_leftovers_of_runs(const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  io::remove_leftovers(out, "latest");
  std::error_code error;
  for (fs::directory_iterator run(out, error), end; !error && run != end; run.increment(error)) {
    std::error_code ignored;
    if (!is_output_folder(run->path().filename().string()) || !fs::is_directory(run->symlink_status(ignored))) {
      continue;
    }
    io::remove_leftovers(run->path());
    for (const char* below : {"traces", "graphs"}) {
      io::remove_leftovers(run->path() / below);
    }
  }
}

}  // namespace

std::string make_output_folder(const std::string& out, const std::string& name) {
  namespace fs = std::filesystem;
  remove_leftovers_of_runs(out);
  std::error_code error;
  fs::create_directories(out, error);
  const std::string base = fmt::format("{:%Y%m%dT%H%M%SZ}-{}", fmt::gmtime(std::time(nullptr)), file_name(name));
  for (int attempt = 1; !error && attempt < 1000; ++attempt) {
    const fs::path folder = fs::path(out) / (attempt == 1 ? base : fmt::format("{}-{}", base, attempt));
    if (fs::create_directory(folder, error)) {
      return folder.string();
    }
  }
  throw FileError(fmt::format("can't write to the output folder {}: {}; choose another with --out", out,
                              error ? error.message() : "too many runs in one second"));
}

}  // namespace diptych::cli
