#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

#include "framework/graph/ir.h"
#include "framework/io/onnx/model.h"

/// Exports the engine's graphs as ONNX models, for other frameworks to run.
namespace diptych::onnx {

/// The opset of the export: the older one, unless the graph has an op that ONNX has had only since the newer one
/// (Gelu).
inline constexpr std::int64_t kExportedOpset = 17;
inline constexpr std::int64_t kExportedOpsetWithGelu = 20;

/// Exports a captured graph without updates of state. Variables and captured tensors become initializers, and nodes
/// without inputs are computed. Throws Unsupported for an op that has no ONNX form, with its name and origin.
Model export_graph(const graph::Graph& graph);
/// The same, with the index of the graph's node that each of the model's comes from, by its name.
Model export_graph(const graph::Graph& graph, std::map<std::string, std::size_t>& sources);

/// Throws FileError; an error leaves no file behind.
void write_model(const Model& model, const std::filesystem::path& path);
/// As a TensorProto.
void write_tensor(const NamedTensor& tensor, const std::filesystem::path& path);

}  // namespace diptych::onnx
