#pragma once

#include <span>
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
  /// No tensor if the variable was never made: a weight that a module leaves out.
  Tensor value_or_none() const { return defined() ? value() : Tensor(); }
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
  void note(const Tensor& current) const;

  Reference<VariableState> state_;
};

/// A variable that was used, and its value before.
struct VariableRead {
  Variable variable;
  Tensor value;
};

/// Notes every variable that is read or assigned on this thread while it lives.
class VariableReads {
 public:
  VariableReads();
  ~VariableReads();
  VariableReads(const VariableReads&) = delete;
  VariableReads& operator=(const VariableReads&) = delete;

  const std::vector<VariableRead>& reads() const { return reads_; }

 private:
  std::vector<VariableRead> reads_;
  std::vector<VariableRead>* outer_;
};

/// While it lives, the variables read as they did then; at its end they get back what they had before, whatever was
/// assigned in between.
class Rebind {
 public:
  explicit Rebind(std::span<const VariableRead> reads);
  ~Rebind();
  Rebind(const Rebind&) = delete;
  Rebind& operator=(const Rebind&) = delete;

 private:
  std::vector<VariableRead> previous_;
};

using Variables = std::vector<Variable>;

}  // namespace diptych
