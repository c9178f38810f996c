#include "reports/views/peers.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/names.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "workloads/onnx/export.h"
#include "workloads/onnx/workload.h"

namespace diptych::cli {
namespace {

namespace fs = std::filesystem;

/// The name of the workload's model alone: the workload itself if its step is just the model; otherwise the model after
/// the steps of its check, in a file.
std::string model_of(const std::string& name, const RunOptions& options) {
  const workloads::Workload& workload = resolve_workload(name);
  if (workloads::is_onnx_name(workload.name) || workload.make(options.seed)->is_forward()) {
    return workload.name;
  }
  const fs::path folder = fs::path(options.out) / "models";
  fs::create_directories(folder);
  // Runs identify the model by its path: another seed is another model.
  const fs::path path = folder / fmt::format("{}-seed-{}.onnx", file_name(workload.name), options.seed);
  onnx::write_model(workloads::export_workload(workload, options.seed, workload.check_steps).model, path);
  return path.string();
}

}  // namespace

int peers(const PeersOptions& options) {
  DocumentOutput markdown(options.markdown);
  RunOptions run_options = options.run;
  if (run_options.workloads.empty()) {
    // Inference, each kind of model, small to large.
    run_options.workloads = {"micro/dispatch",  "micro/fusion", "mlp/digits",    "attention/written-out",
                             "attention/block", "conv/block",   "conv/resnet18", "vit/reference-b1",
                             "vit/tiny",        "vit/b16",      "gpt/mini-infer"};
  }
  run_options.workloads = resolve_workloads(run_options.workloads);
  for (std::string& workload : run_options.workloads) {
    workload = model_of(workload, run_options);
  }
  if (run_options.arms.empty()) {
    run_options.arms = {"eager", "graph", "torch-eager", "torch-script", "libtorch", "ort"};
    for (const std::string& own : run_options.own_arms) {
      run_options.arms.push_back(own.substr(0, own.find('=')));
    }
  }
  run_options.arms_may_be_absent = true;
  run_options.name = "peers";
  nlohmann::json result;
  const int code = run(run_options, &result);
  if (!result.is_null()) {
    if (!markdown.is_wanted()) {
      fmt::print("\n{}", reports::render_peers_table(result, {wants_colour(), terminal_width()}));
    } else {
      markdown.write(reports::render_peers(result));
      if (!markdown.is_standard_output()) {
        fmt::print("{}\n", reports::printable(options.markdown));
      }
    }
  }
  return code;
}

}  // namespace diptych::cli
