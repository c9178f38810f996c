#include <array>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/self.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/io/json_text.h"
#include "framework/io/path_text.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "workloads/onnx/check.h"
#include "workloads/processes/child.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
using workloads::CaseResult;
using workloads::OnnxMode;
using workloads::Outcome;

/// The folders as typed; @FILE is replaced by the lines of the file.
std::vector<std::string> folders_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> folders;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with('@')) {
      folders.push_back(argument);
      continue;
    }
    const std::string file = argument.substr(1);
    if (!std::filesystem::exists(file)) {
      throw FileError(fmt::format("can't read the list {}", reports::printable(file)));
    }
    std::istringstream list(reports::read_text_file(file));
    for (std::string line; std::getline(list, line);) {
      if (!line.empty() && line[0] != '#') {
        folders.push_back(line);
      }
    }
  }
  if (folders.empty()) {
    throw Error("no case is named; give folders with a model.onnx, or @FILE with one folder a line");
  }
  return folders;
}

json to_json(const CaseResult& result) {
  return {{"folder", io::text_of_path(result.folder)},
          {"mode", workloads::name_of(result.mode)},
          {"outcome", workloads::name_of(result.outcome)},
          {"maxabs", result.largest_difference},
          {"elementwise", result.elementwise},
          {"reason", result.reason.empty() ? json() : json(result.reason)},
          {"warning", result.warning.empty() ? json() : json(result.warning)}};
}

CaseResult from_json(const json& result) {
  CaseResult read;
  read.folder = result.at("folder").get<std::string>();
  read.mode = result.at("mode") == "eager" ? OnnxMode::eager : OnnxMode::graph;
  for (const Outcome outcome : {Outcome::pass, Outcome::fail, Outcome::unsupported, Outcome::error}) {
    read.outcome = result.at("outcome") == workloads::name_of(outcome) ? outcome : read.outcome;
  }
  // Infinity is null in JSON.
  read.largest_difference =
      result.at("maxabs").is_number() ? result.at("maxabs").get<double>() : std::numeric_limits<double>::infinity();
  read.elementwise = result.at("elementwise").get<std::int64_t>();
  read.reason = result.at("reason").is_string() ? result.at("reason").get<std::string>() : "";
  read.warning = result.at("warning").is_string() ? result.at("warning").get<std::string>() : "";
  return read;
}

workloads::CheckOptions check_options(const OnnxCheckOptions& options) {
  workloads::CheckOptions check;
  check.rtol = options.rtol;
  check.atol = options.atol;
  check.elementwise = options.elementwise;
  check.bitwise = options.numerics == "exact";
  if (options.mode != "both") {
    check.modes = {options.mode == "eager" ? OnnxMode::eager : OnnxMode::graph};
  }
  return check;
}

/// The other end of IsolatedCases: reads one folder per line, and writes one line of results for each.
int answer_cases(const OnnxCheckOptions& options) {
  const workloads::CheckOptions check = check_options(options);
  for (std::string line; std::getline(std::cin, line);) {
    const std::string folder = io::path_of_text(io::parse_json_text(line).get<std::string>()).string();
    json answer = json::array();
    for (const CaseResult& result :
         options.gradients ? workloads::check_gradients(folder, check) : workloads::check_case(folder, check)) {
      answer.push_back(to_json(result));
    }
    fmt::print("{}\n", answer.dump(-1, ' ', true, json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return kSuccess;
}

/// Runs cases in a separate process, which a bad case may bring down; the rest then run in another one.
class IsolatedCases {
 public:
  explicit IsolatedCases(const OnnxCheckOptions& options)
      : options_(options),
        command_{own_program(),
                 "onnx",
                 options.gradients ? "grad" : "check",
                 "--answer",
                 "--mode",
                 options.mode,
                 "--numerics",
                 options.numerics,
                 "--rtol",
                 fmt::format("{}", options.rtol),
                 "--atol",
                 fmt::format("{}", options.atol)} {
    if (options.elementwise) {
      command_.emplace_back("--elementwise");
    }
  }

  /// Starts one case, whose results finish() returns; there is only one at a time.
  void start(const std::string& folder) {
    if (child_ == nullptr) {
      child_ = std::make_unique<workloads::Child>(command_, workloads::own_environment(),
                                                  workloads::ChildOptions{.is_told = true});
    }
    child_->write_line(json(io::text_of_path(folder)).dump(), 1000);
  }

  std::vector<CaseResult> finish(const std::string& folder) {
    std::string line;
    const auto milliseconds = static_cast<int>(std::min(options_.timeout, 1e6) * 1e3);
    switch (child_->read_line(line, milliseconds)) {
      case workloads::Child::Read::line: {
        std::vector<CaseResult> results;
        for (const json& result : io::parse_json_text(line)) {
          results.push_back(from_json(result));
          results.back().folder = folder;
        }
        return results;
      }
      case workloads::Child::Read::timeout:
        return broken(folder, fmt::format("no result within {:.4g} s (--timeout)", options_.timeout));
      default:
        return broken(folder, "its process " + how_it_ended());
    }
  }

 private:
  std::string how_it_ended() {
    std::string how;
    bool ended = false;
    for (int i = 0; i < 200 && !ended; ++i) {
      ended = child_->has_ended(how);
      usleep(ended ? 0 : 10'000);
    }
    return how.empty() ? "ended without a result" : how;
  }

  std::vector<CaseResult> broken(const std::string& folder, const std::string& why) {
    child_.reset();
    std::vector<CaseResult> results;
    for (const OnnxMode mode : check_options(options_).modes) {
      results.push_back({folder, mode, Outcome::error, 0, why});
    }
    return results;
  }

  const OnnxCheckOptions& options_;
  std::vector<std::string> command_;
  std::unique_ptr<workloads::Child> child_;  ///< null before the first case and after a bad one
};

}  // namespace

int onnx_check(const OnnxCheckOptions& options) {
  if (options.answer) {
    return answer_cases(options);
  }
  DocumentOutput document(options.json);
  const std::vector<std::string> folders = folders_of(options.folders);
  const std::size_t at_once = std::min<std::size_t>(static_cast<std::size_t>(options.threads), folders.size());
  std::vector<IsolatedCases> isolated;
  for (std::size_t i = 0; i < at_once; ++i) {
    isolated.emplace_back(options).start(folders[i]);
  }
  std::array<int, 4> counts{};
  json cases = json::array();
  for (std::size_t i = 0; i < folders.size(); ++i) {
    IsolatedCases& free = isolated[i % at_once];
    const std::vector<CaseResult> results = free.finish(folders[i]);
    if (i + at_once < folders.size()) {
      free.start(folders[i + at_once]);
    }
    for (const CaseResult& result : results) {
      ++counts[static_cast<std::size_t>(result.outcome)];
      fmt::print("{} {} {} maxabs={:.3g}{}{}{}\n", workloads::name_of(result.outcome),
                 reports::printable(result.folder), workloads::name_of(result.mode), result.largest_difference,
                 options.elementwise ? fmt::format(" elementwise={}", result.elementwise) : "",
                 result.reason.empty() ? "" : fmt::format(" ({})", reports::printable(result.reason)),
                 result.warning.empty() ? "" : fmt::format(" (warning: {})", reports::printable(result.warning)));
      std::fflush(stdout);
      cases.push_back(to_json(result));
    }
  }
  fmt::print("{} passed, {} failed, {} unsupported, {} error\n", counts[0], counts[1], counts[2], counts[3]);
  if (document.is_wanted()) {
    document.write(reports::to_text({{"passed", counts[0]},
                                     {"failed", counts[1]},
                                     {"unsupported", counts[2]},
                                     {"errors", counts[3]},
                                     {"cases", std::move(cases)}}));
  }
  return counts[1] + counts[3] == 0 ? kSuccess : kFailure;
}

}  // namespace diptych::cli
