#pragma once

#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace diptych {

struct VariableState {
  ReferenceCount references;
  Tensor value;
  std::string name;
};
void destroy(VariableState* state) noexcept;

/// The one mutable thing: a named cell that holds a tensor (a parameter, optimizer state, running statistics). Copies
/// share the cell. A captured graph reads it as an input and writes it as an output, in place where that is safe.
class Variable {
 public:
  Variable() = default;
  explicit Variable(const Tensor& initial, std::string name = "");

  /// The current tensor; while a graph is captured, the traced one.
  Tensor value() const;
  operator Tensor() const {
    return value();
  }  // NOLINT(google-explicit-constructor): a variable is used like its tensor

  /// Throws ShapeError or DTypeError if the type changes: graphs and optimizers rely on it.
  void assign(const Tensor& value, Location where = Location::current());

  const std::string& name() const { return state_->name; }
  void rename(std::string name) { state_->name = std::move(name); }
  TensorType type() const { return state_->value.type(); }
  bool defined() const { return static_cast<bool>(state_); }
  VariableState* state() const { return state_.get(); }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

  /// For transforms: reads give `value` from now on; returns what they gave before. Not an assignment: nothing is
  /// checked.
  Tensor exchange(const Tensor& value) const;

 private:
  Reference<VariableState> state_;
};

using Variables = std::vector<Variable>;

}  // namespace diptych
