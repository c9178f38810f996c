#include "reports/peers.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/names.h"
#include "cli/verbs.h"
#include "reports/run_file.h"
#include "reports/text.h"
#include "workloads/onnx/export.h"
#include "workloads/onnx/workload.h"

namespace diptych::cli {
namespace {

namespace fs = std::filesystem;

/// The name of the workload's model alone: the workload itself where its step is no more than that; else the model
/// after the steps of its check, in a file.
std::string model_of(const std::string& name, const RunOptions& options) {
  const workloads::Workload& workload = resolve_workload(name);
  if (workloads::is_onnx_name(workload.name) || workload.make(options.seed)->is_forward()) {
    return workload.name;
  }
  const fs::path folder = fs::path(options.out) / "models";
  fs::create_directories(folder);
  // Runs name it by its path: another seed is another model.
  const fs::path path = folder / fmt::format("{}-seed-{}.onnx", file_name(workload.name), options.seed);
  onnx::write_model(workloads::export_workload(workload, options.seed, workload.check_steps).model, path);
  return path.string();
}

}  // namespace

int peers(const PeersOptions& options) {
  RunOptions run_options = options.run;
  if (run_options.workloads.empty()) {
    // Inference, each kind of model, small to large.
    run_options.workloads = {"micro/dispatch", "micro/fusion", "mlp/digits", "attention/block", "conv/block",
                             "conv/resnet18",  "vit/tiny",     "vit/b16",    "gpt/mini-infer"};
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
  nlohmann::json result;
  const int code = run(run_options, &result);
  if (!result.is_null()) {
    const std::string table = reports::render_peers(result);
    if (options.markdown.empty()) {
      fmt::print("\n{}", table);
    } else {
      reports::write_atomically(options.markdown, table);
      fmt::print("{}\n", reports::printable(options.markdown));
    }
  }
  return code;
}

}  // namespace diptych::cli
