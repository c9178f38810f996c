#pragma once

#include <unordered_map>

#include "framework/graph/ir.h"

namespace diptych::graph {

/// Captures one graph: while it is the thread's active capture (see CaptureScope) every op becomes a node instead of
/// being computed.
class Capture {
 public:
  explicit Capture(std::string name);

  /// A traced tensor that stands for an argument of each call.
  Tensor argument(const TensorType& type, std::string name);
  Tensor record(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);
  Tensor read(const Variable& variable);
  /// Reads give `value` from now on.
  void write(const Variable& variable, const Tensor& value);
  /// As write(), but a view is copied first: variables are dense in both modes.
  void assign(const Variable& variable, const Tensor& value, Location where);

  /// An update in place: what shares x's storage reads as `value` (of x's type) there from now on. Throws CaptureError for
  /// tensors that the function doesn't make itself.
  void update(const char* name, const Tensor& x, const Tensor& value, Location where);

  /// Ends the capture; each output and each variable that has a new value becomes a result of the graph.
  Graph finish(std::span<const Tensor> outputs, Location where);

  /// For messages: "matmul at model.cpp:12", or the input's name.
  std::string describe_value(ValueId value) const;
  std::uint64_t serial() const { return serial_; }

 private:
  struct VariableEntry {
    std::uint32_t input;
    Tensor current;
  };
  Tensor traced(ValueId value);
  /// The value of a tensor of this capture, or of a captured one.
  ValueId value_of(const Tensor& tensor, const char* op, Location where);

  Graph graph_;
  std::uint64_t serial_;
  std::uint32_t source_ops_ = 0;
  std::unordered_map<VariableState*, VariableEntry> variables_;
  std::unordered_map<TensorBody*, ValueId> captured_;
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
