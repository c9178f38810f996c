#pragma once

#include <filesystem>

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

/// Throws FileError; an error leaves no file behind.
void write_model(const Model& model, const std::filesystem::path& path);
/// As a TensorProto.
void write_tensor(const NamedTensor& tensor, const std::filesystem::path& path);

}  // namespace diptych::onnx
