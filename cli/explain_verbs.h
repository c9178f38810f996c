#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "cli/verbs.h"

namespace diptych::cli {

/// `diptych profile`: the verbs that say where time goes.
class ExplainVerbs {
 public:
  /// `action` is set to what the parsed words ask for.
  void add(CLI::App& app, std::function<int()>& action);

 private:
  void add_profile(CLI::App& app, std::function<int()>& action);

  ProfileOptions profile_;
};

}  // namespace diptych::cli
