#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "cli/verbs.h"

namespace diptych::cli {

/// `diptych onnx run|check|grad|export|ops`: the second words and their options.
class OnnxVerbs {
 public:
  /// `action` is set to what the parsed words ask for.
  void add(CLI::App& app, std::function<int()>& action);

 private:
  CLI::App* add_verb(CLI::App* onnx, const char* name, const char* description, std::function<int()>& action,
                     std::function<int()> run);
  void add_checking_flags(CLI::App* verb, OnnxCheckOptions& options, const char* cases);

  OnnxRunOptions run_;
  OnnxCheckOptions check_;
  OnnxCheckOptions grad_;
  OnnxExportOptions export_;
  bool markdown_ = false;
};

}  // namespace diptych::cli
