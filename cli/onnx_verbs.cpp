#include "cli/onnx_verbs.h"

namespace diptych::cli {

CLI::App* OnnxVerbs::add_verb(CLI::App* onnx, const char* name, const char* description, std::function<int()>& action,
                              std::function<int()> run) {
  CLI::App* verb = onnx->add_subcommand(name, description);
  verb->allow_extras();
  verb->callback([&action, run = std::move(run)] { action = run; });
  return verb;
}

void OnnxVerbs::add_checking_flags(CLI::App* verb, OnnxCheckOptions& options, const char* cases) {
  verb->add_option("cases", options.folders, cases);
  verb->add_option("--mode", options.mode, "With both, the bits have to be equal too")
      ->capture_default_str()
      ->check(CLI::IsMember({"eager", "graph", "both"}));
  verb->add_option("--numerics", options.numerics, "fast: the modes may differ within the tolerance")
      ->capture_default_str()
      ->check(CLI::IsMember({"exact", "fast"}));
  verb->add_option("--rtol", options.rtol, "Relative tolerance")->capture_default_str()->check(CLI::NonNegativeNumber);
  verb->add_option("--atol", options.atol, "Absolute tolerance")->capture_default_str()->check(CLI::NonNegativeNumber);
  verb->add_flag("--elementwise", options.elementwise,
                 "Hold each float against its own magnitude too, as numpy does, not its tensor's largest alone")
      ->disable_flag_override();
  verb->add_option("--threads", options.threads, "Cases at once, each in a thread of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  verb->add_option("--timeout", options.timeout, "Seconds that a case may take; then it is an ERROR")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_flag("--answer", options.answer)->group("");  // for the process that runs the cases
  verb->add_option("--json", options.json,
                   "Also write the results to this file; - for standard output: all else then goes to standard error");
  verb->footer(
      "A line a case and mode: PASS, FAIL, UNSUPPORTED or ERROR, then the counts. Exit code 0 if nothing failed or "
      "broke,\n"
      "1 otherwise; what isn't supported is counted by itself. More: docs/onnx.md.");
}

void OnnxVerbs::add(CLI::App& app, std::function<int()>& action) {
  CLI::App* onnx = app.add_subcommand("onnx", "The user's own model: run, check, grad, export, ops");
  onnx->require_subcommand(0, 1);
  onnx->allow_extras();  // so that a wrong word gets our own error message
  onnx->footer(
      "Examples:\n"
      "  diptych onnx run model.onnx --dim batch=8\n"
      "  diptych onnx check node/*\n"
      "  diptych onnx export mlp/digits\n"
      "`diptych run model.onnx` measures it, and `diptych run model.onnx:train=adam` its training steps;\n"
      "so do ladder, profile and graph. More: docs/onnx.md.");

  CLI::App* run =
      add_verb(onnx, "run", "Runs a model once and prints its outputs", action, [this] { return onnx_run(run_); });
  run->add_option("model", run_.model, "The .onnx file")->required();
  run->add_option("--inputs", run_.inputs, "Its inputs: .pb (TensorProto) or .npy files, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  run->add_flag("--random", run_.random, "Random inputs, by the seed: so it is without --inputs")
      ->disable_flag_override();
  run->add_option("--dim", run_.dimensions, "The length of a named axis: batch=8")->allow_extra_args(false);
  run->add_option("--mode", run_.mode, "Op by op, or as a graph")
      ->capture_default_str()
      ->check(CLI::IsMember({"eager", "graph"}));
  run->add_option("--out", run_.out, "Write the outputs there, as output_N.npy and output_N.pb");
  run->add_option("--seed", run_.seed, "Of random inputs")->capture_default_str();

  add_checking_flags(add_verb(onnx, "check", "Models against the results recorded beside them", action,
                              [this] { return onnx_check(check_); }),
                     check_, "Folders with model.onnx and test_data_set_*/input_N.pb, output_N.pb; @FILE: one a line");
  grad_.gradients = true;
  add_checking_flags(
      add_verb(onnx, "grad", "Their gradients against recorded ones", action, [this] { return onnx_check(grad_); }),
      grad_,
      "Folders as for check, with grad/cotangent_N.pb (one an output) and grad/*.pb, named in the file after an "
      "input or initializer; @FILE: one a line");

  CLI::App* exporting = add_verb(onnx, "export", "A workload's model as .onnx, with an input and its output", action,
                                 [this] { return onnx_export(export_); });
  exporting->add_option("workload", export_.workload, "Which")->required()->type_name("WORKLOAD");
  exporting->add_option("--out", export_.out, "The folder (named after the workload)");
  exporting->add_option("--steps", export_.steps, "Steps before, which train it where they do (those of its check)")
      ->check(CLI::Range(0, 10'000'000));
  exporting->add_option("--seed", export_.seed, "Of the model and its inputs")->capture_default_str();

  CLI::App* ops = add_verb(onnx, "ops", "The operators that are supported, with their limits", action,
                           [this] { return onnx_ops(markdown_); });
  ops->add_flag("--markdown", markdown_, "As docs/onnx-ops.md")->disable_flag_override();
}

}  // namespace diptych::cli
