#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/capture.h"
#include "framework/io/onnx/model.h"

/// How ONNX's operators are said in the engine's ops: one entry each, in the file of its family.
namespace diptych::onnx {

class GraphProgram;

/// A value while a model runs. `known`: its elements follow from constants and shapes alone, and can be read even while
/// a graph is captured.
struct Value {
  Tensor tensor;
  bool known = false;
};

using Inputs = std::span<const Value>;
using Outputs = std::span<Value>;

/// Computes the outputs. An input that was left out is undefined; so may be an output that nobody wants.
using Run = std::function<void(Inputs inputs, Outputs outputs, Location where)>;

struct Translation {
  Run run;
  std::vector<int> host_inputs = {};  ///< whose elements it reads: they have to be known
  bool by_type = false;               ///< reads types alone: what it gives is always known
  bool sets_known = false;            ///< says itself what is known (control flow)
};

/// A node that is being translated. Attributes that nobody has asked for in the end are refused.
class NodeView {
 public:
  using Compile = std::function<std::shared_ptr<const GraphProgram>(const Graph&)>;
  NodeView(const Node& node, std::int64_t opset, std::string what, Compile compile);

  std::int64_t opset() const { return opset_; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int index) const;
  bool wants_output(int index) const;
  const std::string& op() const { return node_.op; }

  bool has(const std::string& attribute) const { return node_.attributes.contains(attribute); }
  // An attribute of another kind throws FileError.
  std::int64_t integer(const std::string& attribute, std::int64_t otherwise);
  double real(const std::string& attribute, double otherwise);
  std::string text(const std::string& attribute, const std::string& otherwise);
  std::optional<std::vector<std::int64_t>> integers(const std::string& attribute);
  std::optional<std::vector<double>> reals(const std::string& attribute);
  /// Undefined if there is none.
  Tensor tensor(const std::string& attribute);
  /// A graph as a program; what it uses from around it follows the node's own inputs.
  std::shared_ptr<const GraphProgram> body(const std::string& attribute);
  /// Says that an attribute makes no difference here.
  void ignore(const std::string& attribute) { read_.insert(attribute); }

  /// "node \"conv1\" (Conv, opset 13): <what>"
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void malformed(const std::string& what) const;
  void check_inputs(int least, int most) const;
  static constexpr int kAny = 1 << 20;
  void check_all_read() const;

  /// Names of values around the node that its bodies use.
  const std::vector<std::string>& captured() const { return captured_; }

 private:
  template <class T>
  const T* find(const std::string& attribute, const char* kind);

  const Node& node_;
  std::int64_t opset_;
  std::string what_;
  Compile compile_;
  std::set<std::string> read_;
  std::vector<std::string> captured_;
};

struct Operator {
  const char* name;
  int first;  ///< opsets in which the translation holds
  int last;
  Translation (*translate)(NodeView& node);
  const char* limits = "";  ///< what of it isn't supported, for people
};

inline constexpr int kNewestOpset = 23;

/// All of ONNX's own domain, by name.
const std::vector<Operator>& operators();
/// Null if there is none.
const Operator* find_operator(std::string_view name);

// The families, one file each.
void add_arithmetic(std::vector<Operator>& all);
void add_activations(std::vector<Operator>& all);
void add_reductions(std::vector<Operator>& all);
void add_shapes(std::vector<Operator>& all);
void add_indexing(std::vector<Operator>& all);
void add_networks(std::vector<Operator>& all);
void add_resizing(std::vector<Operator>& all);
void add_attention(std::vector<Operator>& all);
void add_losses(std::vector<Operator>& all);
void add_control(std::vector<Operator>& all);

// What the families share.

/// While it lives, what is computed is known if `known`: at once, even while a graph is captured.
class KnownScope {
 public:
  explicit KnownScope(bool known) {
    if (known) {
      eager_.emplace(nullptr);
    }
  }

 private:
  std::optional<graph::CaptureScope> eager_;
};

/// An input that may be left out: undefined then.
inline Tensor optional_input(Inputs inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index].tensor : Tensor();
}
/// The elements of a known tensor of integers.
std::vector<std::int64_t> host_integers(const Tensor& tensor);
/// Its only element. Throws ShapeError.
std::int64_t host_integer(const Tensor& tensor);
double host_real(const Tensor& tensor);
/// Axes from 0 on. Throw ShapeError for one that there isn't, or twice.
int axis_of(std::int64_t axis, int rank);
Axes axes_of(std::span<const std::int64_t> axes, int rank);
/// Throws ShapeError for negative lengths, and for more bytes than the machine has.
/// Bytes: set_memory_limit().
double& memory_limit();

Shape checked_shape(std::span<const std::int64_t> lengths, DType dtype);
/// i64, one axis.
Tensor integers(std::span<const std::int64_t> values);
/// `value` as a scalar of `like`'s type.
Tensor scalar_like(const Tensor& like, double value, Location where);

/// One output from one input, and from two.
Translation unary(NodeView& node, std::function<Tensor(const Tensor&, Location)> function);
template <Tensor (*op)(const Tensor&, Location)>
Translation plain(NodeView& node) {
  return unary(node, op);
}
Translation binary(NodeView& node, std::function<Tensor(const Tensor&, const Tensor&, Location)> function);

}  // namespace diptych::onnx
