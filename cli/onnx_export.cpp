#include <filesystem>

#include <fmt/format.h>

#include "cli/names.h"
#include "cli/onnx_ops_page.h"
#include "cli/verbs.h"
#include "framework/io/onnx/operators.h"
#include "reports/text/text.h"
#include "workloads/onnx/export.h"

namespace diptych::cli {

int onnx_export(const OnnxExportOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
  const std::filesystem::path folder = options.out.empty() ? file_name(workload.name) + "-onnx" : options.out;
  const std::int64_t steps = options.steps >= 0 ? options.steps : workload.check_steps;
  const workloads::ExportedWorkload exported = workloads::export_workload(workload, options.seed, steps);
  workloads::write_case(exported, folder);
  fmt::print(
      "{}: {} nodes, opset {}, after {} steps (seed {})\n{}/model.onnx\n{}/test_data_set_0/   an input and what "
      "eager gives for it; `diptych onnx check {}` compares\n",
      reports::printable(workload.name), exported.model.graph->nodes.size(), exported.model.opsets.at(""), steps,
      options.seed, reports::printable(folder.string()), reports::printable(folder.string()),
      reports::printable(folder.string()));
  return kSuccess;
}

int onnx_ops(bool markdown) {
  if (markdown) {
    fmt::print("{}", reports::onnx_ops_page());
    return kSuccess;
  }
  for (const onnx::Operator& op : onnx::operators()) {
    fmt::print("  {:<37} {:<8} {}\n", op.name, reports::onnx_opsets(op), op.limits);
  }
  return kSuccess;
}

}  // namespace diptych::cli
