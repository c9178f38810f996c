#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/capture/capture.h"
#include "framework/io/onnx/model.h"
#include "framework/ops/random.h"

/// Maps ONNX's operators to the engine's ops: one entry each, in the file of its family.
namespace diptych::onnx {

class GraphProgram;

/// A value while a model runs. `known`: its elements depend on constants and shapes alone, and can be read even while a
/// graph is captured.
struct Value {
  using Items = std::vector<Tensor>;
  Tensor tensor;
  bool known = false;
  std::shared_ptr<const Items> items = nullptr;  ///< of a sequence, whose tensor is only its length (lists.cpp)
  bool absent = false;                           ///< an optional without an element, whose tensor says nothing
  bool drawn = false;                            ///< depends on random numbers

  void clear() {
    tensor = Tensor();
    items.reset();
    absent = false;
  }
  /// Something that operators on tensors don't take.
  bool is_no_tensor() const { return items != nullptr || absent; }
  /// The number of its tensors.
  std::size_t count() const { return items != nullptr ? items->size() : absent ? 0 : 1; }
};

/// A sequence as a value, and an optional without an element (lists.cpp).
Value sequence_of(Value::Items items);
Value absent_optional();

using Inputs = std::span<const Value>;
using Outputs = std::span<Value>;

/// Computes the outputs. An omitted input is undefined; an unused output may be.
using Run = std::function<void(Inputs inputs, Outputs outputs, Location where)>;

struct Translation {
  Run run;
  std::vector<int> host_inputs = {};  ///< inputs whose elements it reads, so they have to be known
  bool by_type = false;               ///< reads types alone, so its results are always known
  bool sets_known = false;            ///< sets `known` itself (control flow)
  bool takes_sequences = false;       ///< and optionals; others never see one
  bool draws = false;                 ///< may draw random numbers, anew in each call; says in `drawn` where it did
};

/// A node being translated. Attributes that no translation has read in the end are refused.
class NodeView {
 public:
  using Compile = std::function<std::shared_ptr<const GraphProgram>(const Graph&)>;
  NodeView(const Node& node, std::int64_t opset, std::string what, Compile compile);

  std::int64_t opset() const { return opset_; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int index) const;
  bool wants_output(int index) const;
  /// The name of the first output that has one: the same in each import.
  std::string first_output() const;
  const std::string& op() const { return node_.op; }

  bool has(const std::string& attribute) const { return node_.attributes.contains(attribute); }
  // An attribute of another type throws FileError.
  std::int64_t integer(const std::string& attribute, std::int64_t otherwise);
  double real(const std::string& attribute, double otherwise);
  std::string text(const std::string& attribute, const std::string& otherwise);
  std::optional<std::vector<std::int64_t>> integers(const std::string& attribute);
  std::optional<std::vector<double>> reals(const std::string& attribute);
  std::optional<std::vector<std::string>> strings(const std::string& attribute);
  /// Undefined if there is no such attribute.
  Tensor tensor(const std::string& attribute);
  /// A graph as a program; the outer values that it uses follow the node's own inputs.
  std::shared_ptr<const GraphProgram> body(const std::string& attribute);
  /// Marks an attribute as irrelevant here.
  void ignore(const std::string& attribute) { read_.insert(attribute); }

  /// "node \"conv1\" (Conv, opset 13): <what>"
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void malformed(const std::string& what) const;
  void check_inputs(int least, int most) const;
  static constexpr int kAny = 1 << 20;
  void check_all_read() const;

  /// Names of the outer values that the node's bodies use.
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
  int first;  ///< opsets for which the translation holds
  int last;   ///< kNewestOpset: it stands in all later ones, too
  Translation (*translate)(NodeView& node);
  const char* limits = "";  ///< the unsupported parts, for people
};

/// Up to here it is known what each opset changes (docs/onnx.md). A later one leaves almost all operators as they are:
/// they are read, and an attribute or input that is new is refused by its name.
inline constexpr int kNewestOpset = 28;
/// The domain whose operators stand in the table with it: "ai.onnx.preview.training::Adam".
inline constexpr std::string_view kTrainingDomain = "ai.onnx.preview.training";

/// All operators of ONNX's own domain, by name.
const std::vector<Operator>& operators();
/// Null if there is no such operator.
const Operator* find_operator(std::string_view name);

// The families, one file each.
void add_arithmetic(std::vector<Operator>& all);
void add_activations(std::vector<Operator>& all);
void add_reductions(std::vector<Operator>& all);
void add_shapes(std::vector<Operator>& all);
void add_indexing(std::vector<Operator>& all);
void add_networks(std::vector<Operator>& all);
void add_normalisations(std::vector<Operator>& all);
void add_resizing(std::vector<Operator>& all);
void add_attention(std::vector<Operator>& all);
void add_losses(std::vector<Operator>& all);
void add_control(std::vector<Operator>& all);
void add_quantised(std::vector<Operator>& all);
void add_pooling(std::vector<Operator>& all);
void add_recurrent(std::vector<Operator>& all);
void add_signal(std::vector<Operator>& all);
void add_sampling(std::vector<Operator>& all);
void add_detection(std::vector<Operator>& all);
void add_sequences(std::vector<Operator>& all);
void add_lists(std::vector<Operator>& all);
void add_training(std::vector<Operator>& all);
void add_random(std::vector<Operator>& all);
void add_bits(std::vector<Operator>& all);
void add_deformable(std::vector<Operator>& all);
void add_state_space(std::vector<Operator>& all);

// Shared by the families.

/// While it lives and `known` is true, results are known: they are computed at once, even while a graph is captured.
class KnownScope {
 public:
  explicit KnownScope(bool known) {
    if (known) {
      eager_.emplace();
    }
  }

 private:
  std::optional<EagerScope> eager_;
};

/// An optional input; undefined if omitted.
inline Tensor optional_input(Inputs inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index].tensor : Tensor();
}
/// The elements of a known tensor of integers.
std::vector<std::int64_t> host_integers(const Tensor& tensor);
/// The only element. Throws ShapeError.
std::int64_t host_integer(const Tensor& tensor);
double host_real(const Tensor& tensor);
/// Axes counted from 0. Throws ShapeError for an axis that doesn't exist or occurs twice.
int axis_of(std::int64_t axis, int rank);
Axes axes_of(std::span<const std::int64_t> axes, int rank);
/// The bytes of set_memory_limit(). checked_shape() throws ShapeError for negative lengths, and for more bytes than the
/// machine has.
double& memory_limit();

Shape checked_shape(std::span<const std::int64_t> lengths, DType dtype);
/// i64 with one axis.
Tensor integers(std::span<const std::int64_t> values);
/// `value` as a scalar of `like`'s type.
Tensor scalar_like(const Tensor& like, double value, Location where);

/// x * factor and x + term, in x's type.
Tensor times(const Tensor& x, double factor, Location where);
Tensor plus(const Tensor& x, double term, Location where);

/// Translations with one output, from one input or from two.
Translation unary(NodeView& node, std::function<Tensor(const Tensor&, Location)> function);
template <Tensor (*op)(const Tensor&, Location)>
Translation plain(NodeView& node) {
  return unary(node, op);
}
Translation binary(NodeView& node, std::function<Tensor(const Tensor&, const Tensor&, Location)> function);

/// The node's own generator, seeded by its attribute, or by the name of its first output if it has none.
Generator generator_of(NodeView& node);

/// The convolution of its first two inputs, with the node's windows and groups: for operators with more inputs.
Translation convolution_of_two(NodeView& node);

/// A MatMul and the Add of a bias after it: x, weight, bias.
Translation product_with_bias();

}  // namespace diptych::onnx
