#pragma once

#include <unordered_map>

#include "framework/graph/ir.h"

namespace diptych::graph {

/// Captures one graph: while it is the thread's active capture (see CaptureScope) every op becomes a node instead of
/// being computed.
class Capture {
 public:
  explicit Capture(std::string name);
  /// Captures a region of control flow for the thread's active capture, or for eager if there is none: what is read
  /// from around it becomes an input.
  static Capture of_region(std::string name);

  /// A traced tensor that stands for an argument of each call; `strides` where it isn't dense.
  Tensor argument(const TensorType& type, std::string name, const Strides* strides = nullptr);
  Tensor record(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);
  Tensor read(const Variable& variable);
  /// Reads give `value` from now on.
  void write(const Variable& variable, const Tensor& value);
  /// As write(), but a view is copied first: variables are dense in both modes.
  void assign(const Variable& variable, const Tensor& value, Location where);

  /// Appends a control-flow node; `outputs` are the types of its results.
  std::vector<Tensor> record_control(const OpDef& op, std::span<const Tensor> inputs, const void* attributes,
                                     std::vector<std::shared_ptr<const Graph>> regions, Location where);

  /// An update in place: what shares x's storage reads as `value` (of x's type) there from now on. Throws CaptureError
  /// for tensors that the function doesn't make itself.
  void update(const char* name, const Tensor& x, const Tensor& value, Location where);
  /// The updates in place that x's storage would have seen so far in eager.
  struct Updates {
    std::uint32_t version = 0;
    Location last;
  };
  Updates updates_of(const TensorBody& x) const;
  /// Whether x is a view or has views.
  bool has_views(const Tensor& x) const;

  /// Ends the capture; each output and each variable that has a new value becomes a result of the graph.
  Graph finish(std::span<const Tensor> outputs, Location where);

  /// Of regions: the tensors from around it that were used, the variables that were, and those of them that have a new
  /// value.
  const std::vector<Tensor>& closed_tensors() const { return closed_; }
  const Variables& used_variables() const { return used_variables_; }
  Variables assigned_variables() const;
  /// The value that stands for such a tensor, or for what a variable holds at first; used from now on if it wasn't.
  /// use() takes any tensor.
  void use(const Tensor& tensor, Location where);
  ValueId close_over(const Tensor& outer);
  ValueId close_over(const Variable& variable);
  /// Ends the capture of a region that takes `inputs` in this order.
  std::shared_ptr<const Graph> finish_region(std::span<const ValueId> inputs, std::span<const Tensor> outputs,
                                             Location where);

  /// For messages: "matmul at model.cpp:12", or the input's name.
  std::string describe_value(ValueId value) const;
  /// The same of a tensor that this capture or one around it has made.
  std::string describe_traced(const TensorBody& body) const;

 private:
  struct VariableEntry {
    std::uint32_t input;  ///< index of the input; of a region the value that stands for what the variable held at first
    Tensor current;
  };
  Capture(std::string name, Capture* parent, bool region);
  Tensor traced(ValueId value);
  // See capture_inplace.cpp.
  const Node* producer(ValueId value) const;
  Strides strides_of(ValueId value) const;
  bool is_view_in_eager(const Node& node, Layout& layout) const;
  ValueId last_of(ValueId value) const;
  /// The value that names the storage in which eager would have this one.
  ValueId storage_of(ValueId value) const;
  /// What a tensor that was captured as `value` reads as now.
  ValueId current(ValueId value);
  void replace(const char* name, ValueId value, ValueId with, Location where);
  bool is_within(std::uint64_t serial) const;
  std::uint32_t next_source_op() { return parent_ != nullptr ? parent_->next_source_op() : source_ops_++; }
  /// The value of a tensor of this capture, or of a captured one.
  ValueId value_of(const Tensor& tensor, const char* op, Location where);

  Graph graph_;
  std::uint64_t serial_;
  std::uint32_t source_ops_ = 0;
  std::unordered_map<VariableState*, VariableEntry> variables_;
  std::unordered_map<TensorBody*, ValueId> captured_;
  std::unordered_map<ValueId, ValueId> replaced_;  ///< by updates in place
  std::unordered_map<ValueId, ValueId> origin_;    ///< the other way, to the first
  std::unordered_map<ValueId, Updates> updates_;   ///< by storage_of()
  std::unordered_map<ValueId, Strides> strides_;   ///< of arguments that aren't dense
  bool region_ = false;
  Capture* parent_ = nullptr;  ///< of a region, unless eager is around it
  std::vector<Tensor> closed_;
  Variables used_variables_;
};

/// Makes `capture` (null: none, eager) the thread's active one.
class CaptureScope {
 public:
  explicit CaptureScope(Capture* capture);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  Capture* previous_;
};

/// Names what runs below it, for provenance: "net.0". Costs nothing in eager.
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
