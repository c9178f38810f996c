#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/core/tensor.h"

/// An ONNX model [onnx/onnx, docs/IR.md] as plain data: the contents of a file, checked for form, without the meaning
/// of its ops. Names are those of the file: hostile until escaped.
namespace diptych::onnx {

/// Something that the engine or the importer doesn't support (yet); the file may be fine. Other problems of a file are
/// FileError.
class Unsupported : public Error {
  using Error::Error;
};

struct Graph;

/// An attribute value that nothing here reads ("sparse tensor", "type"): refused when an op asks for it.
struct UnreadValue {
  std::string kind;
};
/// In a function of the model: stands for an attribute of the node that calls it.
struct AttributeReference {
  std::string name;
};
using AttributeValue = std::variant<UnreadValue, AttributeReference, std::int64_t, double, std::string, Tensor,
                                    std::shared_ptr<const Graph>, std::vector<std::int64_t>, std::vector<double>,
                                    std::vector<std::string>>;

struct Node {
  std::string name;  ///< may be empty
  std::string op;
  std::string domain;                ///< empty: ONNX's own domain
  std::vector<std::string> inputs;   ///< an empty name: omitted
  std::vector<std::string> outputs;  ///< the same
  std::map<std::string, AttributeValue> attributes;
  std::int64_t opset = 0;  ///< of the function that it comes from; 0: the model's
};

/// A graph's input or output.
struct ValueInfo {
  std::string name;
  std::optional<DType> dtype;  ///< none: unspecified
  std::string foreign_type;    ///< a type that isn't a tensor of the engine ("f16 tensor", "sequence"); else empty
  /// Whether it is a sequence or an optional, for which a call takes or gives any number of tensors.
  bool is_list() const { return foreign_type == "sequence" || foreign_type == "optional"; }
  bool has_shape = false;
  std::vector<std::variant<std::int64_t, std::string>> shape;  ///< lengths, or names of dynamic ones ("" if unnamed)
};

struct Initializer {
  Tensor tensor;             ///< undefined: its type is not one of the engine's
  std::string foreign_type;  ///< the name of that type
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  ///< in a valid execution order
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::map<std::string, Initializer> initializers;
};

struct Model {
  std::string path;
  std::int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::int64_t> opsets;  ///< by domain; "" is ONNX's own
  std::shared_ptr<const Graph> graph;          ///< with the model's own functions inlined
};

/// Reads a model, with external data in the same folder. Throws FileError for files that aren't ONNX, are truncated,
/// refer to places outside their folder or contradict themselves; allocates no more than the files have bytes for.
Model read_model(const std::filesystem::path& path);
/// The same from memory; external data is searched for in `folder`.
Model parse_model(std::string_view bytes, const std::string& origin, const std::filesystem::path& folder);

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
/// Reads a TensorProto ("input_0.pb"). Throws FileError; Unsupported for an element type that the engine doesn't have.
NamedTensor read_tensor(const std::filesystem::path& path);

/// A sequence of tensors, or an optional of a tensor or a sequence, with or without one.
struct TensorList {
  bool is_sequence = true;
  bool is_absent = false;
  std::vector<Tensor> tensors;
};
/// Reads a SequenceProto, or an OptionalProto. Throws as read_tensor().
TensorList read_sequence(const std::filesystem::path& path);
TensorList read_optional(const std::filesystem::path& path);

/// The type that a TensorProto's data_type names; none if the engine has no such tensors.
std::optional<DType> dtype_of_code(std::int64_t code);
std::int64_t code_of(DType dtype);
/// "f16", "string", ... for any data_type.
std::string name_of_type(std::int64_t code);

}  // namespace diptych::onnx
