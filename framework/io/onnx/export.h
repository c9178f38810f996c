#pragma once

#include <filesystem>

#include "framework/graph/ir.h"
#include "framework/io/onnx/model.h"

/// The engine's graphs as ONNX models, for other frameworks to run.
namespace diptych::onnx {

/// Of what is exported: the older one unless the graph has an op that ONNX has had a form of since the newer one
/// (Gelu).
inline constexpr std::int64_t kExportedOpset = 17;
inline constexpr std::int64_t kExportedOpsetWithGelu = 20;

/// A captured graph without updates of state. Variables and captured tensors become initializers; what has no inputs is
/// computed. Throws Unsupported for an op that has no ONNX form, with its name and where it is from.
Model export_graph(const graph::Graph& graph);

/// Throws FileError; an error leaves no file behind.
void write_model(const Model& model, const std::filesystem::path& path);
/// As a TensorProto.
void write_tensor(const NamedTensor& tensor, const std::filesystem::path& path);

}  // namespace diptych::onnx
