#pragma once

#include "framework/io/onnx/export.h"
#include "workloads/workload.h"

namespace diptych::workloads {

/// A workload's model, after `steps` steps of its program (which train it, where they do), with inputs to call it with.
struct ExportedWorkload {
  onnx::Model model;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;  ///< of eager execution on these inputs
};
/// Throws Unsupported for a program that has no ONNX form.
ExportedWorkload export_workload(const Workload& workload, std::uint64_t seed, std::int64_t steps);

/// Writes the model, and beside it what `diptych onnx check` and other frameworks compare with, in the layout of the
/// ONNX backend tests: FOLDER/model.onnx, FOLDER/test_data_set_0/input_N.pb, output_N.pb.
void write_case(const ExportedWorkload& exported, const std::filesystem::path& folder);

}  // namespace diptych::workloads
