#pragma once

#include <span>
#include <unordered_map>

#include "framework/core/context.h"
#include "framework/graph/ir.h"

namespace diptych {
struct Layout;
}  // namespace diptych

namespace diptych::graph {

/// Captures one graph: while it is the thread's active capture (see CaptureScope), every op becomes a node instead of
/// being computed.
class Capture : public Tracer {
 public:
  explicit Capture(std::string name);
  /// Captures a region of control flow for the thread's active capture, or for eager if there is none: values read from
  /// outside the region become inputs.
  static Capture of_region(std::string name);

  /// A traced tensor that stands for an argument of each call; `strides` if it isn't dense.
  Tensor argument(const TensorType& type, std::string name, const Strides* strides = nullptr);
  /// Names an argument of this capture, or a tensor that it may close over, among the graph's inputs: the name from the
  /// model's file, cut to a limited length. The first name of a tensor is kept; values made by ops have none.
  void name(const Tensor& tensor, std::string_view name);

  Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where) override;
  Tensor read(const Variable& variable) override;
  void write(const Variable& variable, const Tensor& value) override;
  void assign(const Variable& variable, const Tensor& value, Location where) override;
  void update(const char* name, const Tensor& x, const Tensor& value, Location where) override;
  Updates updates_of(const TensorBody& x) const override;
  bool has_views(const Tensor& x) const override;
  std::string describe(const TensorBody& body) const override;

  /// Appends a control-flow node; `outputs` are the types of its results.
  std::vector<Tensor> record_control(const OpDef& op, std::span<const Tensor> inputs, const void* attributes,
                                     std::vector<std::shared_ptr<const Graph>> regions, Location where);

  /// Ends the capture; each output, and each variable with a new value, becomes a result of the graph.
  Graph finish(std::span<const Tensor> outputs, Location where);

  /// For regions: the outer tensors and variables that were used, and those of the variables that have a new value.
  const std::vector<Tensor>& closed_tensors() const { return closed_; }
  const Variables& used_variables() const { return used_variables_; }
  Variables assigned_variables() const;
  /// The value that stands for such a tensor, or for the initial value of a variable; it is marked as used if it
  /// wasn't. use() takes any tensor.
  void use(const Tensor& tensor, Location where);
  ValueId close_over(const Tensor& outer);
  ValueId close_over(const Variable& variable);
  /// Ends the capture of a region that takes `inputs` in this order.
  std::shared_ptr<const Graph> finish_region(std::span<const ValueId> inputs, std::span<const Tensor> outputs,
                                             Location where);

  /// For messages: "matmul at model.cpp:12", or the input's name.
  std::string describe_value(ValueId value) const;

 private:
  struct VariableEntry {
    std::uint32_t input;  ///< index of the input; in a region, the value that stands for the variable's initial value
    Tensor current;
  };
  Capture(std::string name, Capture* parent, bool region);
  Tensor traced(ValueId value);
  // See capture_inplace.cpp.
  const Node* producer(ValueId value) const;
  Strides strides_of(ValueId value) const;
  bool is_view_in_eager(const Node& node, Layout& layout) const;
  ValueId last_of(ValueId value) const;
  /// The value that identifies the storage that this one would have in eager.
  ValueId storage_of(ValueId value) const;
  /// The value that a tensor captured as `value` has now.
  ValueId current(ValueId value);
  void replace(const char* name, ValueId value, ValueId with, Location where);
  bool is_within(std::uint64_t serial) const;
  /// The name given by name(), here or in an enclosing capture; empty if none.
  std::string given_name(const Tensor& tensor) const;
  std::uint32_t next_source_op() { return parent_ != nullptr ? parent_->next_source_op() : source_ops_++; }
  /// The value of a tensor made in this capture, or of a captured one.
  ValueId value_of(const Tensor& tensor, const char* op, Location where);

  Graph graph_;
  std::uint64_t serial_;
  std::uint32_t source_ops_ = 0;
  std::unordered_map<VariableState*, VariableEntry> variables_;
  std::unordered_map<TensorBody*, ValueId> captured_;
  std::unordered_map<ValueId, ValueId> replaced_;  ///< old to new value, for updates in place
  std::unordered_map<ValueId, ValueId> origin_;    ///< the reverse, to the first value
  std::unordered_map<ValueId, Updates> updates_;   ///< keyed by storage_of()
  std::unordered_map<ValueId, Strides> strides_;   ///< of arguments that aren't dense
  struct NamedTensor {
    Tensor tensor;  ///< held because the map is keyed by address
    std::string name;
  };
  std::unordered_map<const TensorBody*, NamedTensor> named_;
  std::unordered_map<ValueId, std::string> named_arguments_;
  bool region_ = false;
  Capture* parent_ = nullptr;  ///< for regions, unless eager is around them
  std::vector<Tensor> closed_;
  Variables used_variables_;
};

/// The calling thread's active capture; null: eager.
Capture* active_capture();

/// Makes `capture` the active capture of the calling thread.
class CaptureScope {
 public:
  explicit CaptureScope(Capture& capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Interpreter* previous_;  ///< null: whatever dispatches then
};

/// Names the ops inside the scope for provenance: "net.0". Costs nothing in eager.
class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const char* previous_ = nullptr;
};

}  // namespace diptych::graph
