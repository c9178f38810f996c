#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/graph/ir.h"
#include "framework/io/onnx/export.h"
#include "framework/io/onnx/model.h"

/// A graph on its way out, and how each of the engine's ops is said in ONNX's: one entry each, in the file of its
/// family.
namespace diptych::onnx {

class Exporter;

/// One of the engine's nodes, on its way out.
struct Call {
  Exporter& out;
  const graph::Node& node;
  std::vector<std::string> inputs;  ///< names
  std::vector<TensorType> types;    ///< of the inputs
  TensorType type;                  ///< of the output
  std::string result;               ///< its name

  template <class A>
  const A& as() const {
    return node.attributes.as<A>();
  }
};

/// Emits what the call is in ONNX.
using Emit = void (*)(Call& call);
using Emitters = std::map<const OpDef*, Emit>;

// The families, one file each.
void add_elementwise(Emitters& all);
void add_axiswise(Emitters& all);

/// From one graph to one model.
class Exporter {
 public:
  explicit Exporter(const graph::Graph& graph);

  std::int64_t opset() const { return opset_; }

  Model run();
  /// By the name of a node that was emitted, the index of the graph's node that it is part of.
  const std::map<std::string, std::size_t>& sources() const { return sources_; }

  /// A name that nothing has yet: the stem, or one that starts with it.
  std::string fresh(const std::string& stem);

  /// Names of new initializers.
  std::string constant(const Tensor& tensor);
  std::string integers(const std::vector<std::int64_t>& values);
  std::string number(double value, DType dtype);

  void emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
            std::map<std::string, AttributeValue> attributes = {});
  /// With a name made for its output.
  std::string emit(const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, AttributeValue> attributes = {});

  [[noreturn]] static void refuse(const graph::Node& node, const std::string& why);

 private:
  void emit_node(const graph::Node& node);

  const graph::Graph& graph_;
  std::int64_t opset_ = kExportedOpset;
  Graph result_;
  std::map<graph::ValueId, std::string> names_;
  std::set<std::string> taken_;
  std::map<std::string, std::size_t> sources_;
  std::optional<std::size_t> source_;  ///< whose form is being emitted
};

// What the families share.

/// One op of ONNX's, by name.
template <const char* name>
void same(Call& call) {
  call.out.emit(name, call.inputs, call.result);
}

/// `value` as a scalar of the output's type.
inline std::string scalar(Call& call, double value) { return call.out.number(value, call.type.dtype); }

}  // namespace diptych::onnx
