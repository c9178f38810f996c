#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/io/onnx/export.h"
#include "workloads/workload.h"

namespace diptych::workloads {

/// A workload's model, after `steps` steps of its program (which train it, if they do), with inputs for a call.
struct ExportedWorkload {
  onnx::Model model;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;                    ///< of eager execution on these inputs
  std::vector<std::string> ops;                   ///< the program's, in its order
  std::map<std::string, std::size_t> op_of_node;  ///< by the name of one of the model's nodes: which of `ops` it is of
};
/// Throws Unsupported for a program without an ONNX form.
ExportedWorkload export_workload(const Workload& workload, std::uint64_t seed, std::int64_t steps);

/// Writes the model and, next to it, the data that `diptych onnx check` and other frameworks compare with, in the
/// layout of the ONNX backend tests: FOLDER/model.onnx, FOLDER/test_data_set_0/input_N.pb, output_N.pb.
void write_case(const ExportedWorkload& exported, const std::filesystem::path& folder);

}  // namespace diptych::workloads
