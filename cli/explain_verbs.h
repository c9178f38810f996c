#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "cli/verbs.h"

namespace diptych::cli {

/// `diptych profile` and `diptych why`: the verbs that say where time goes.
class ExplainVerbs {
 public:
  /// `action` is set to what the parsed words ask for.
  void add_profile(CLI::App& app, std::function<int()>& action);
  void add_why(CLI::App& app, std::function<int()>& action);

  /// The program's path and the words, as typed.
  void started_as(const std::string& program, const std::vector<std::string>& command) {
    why_.ladder.run.program = program;
    why_.ladder.run.command = command;
  }

 private:
  ProfileOptions profile_;
  WhyOptions why_;
};

}  // namespace diptych::cli
