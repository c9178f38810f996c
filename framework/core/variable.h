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

/// The only mutable thing: a named cell that holds a tensor (a parameter, optimizer state, running statistics). Copies
/// share the cell. A captured graph reads it as an input and writes it as an output, in place where that is safe.
class Variable {
 public:
  Variable() = default;
  explicit Variable(const Tensor& initial, std::string name = "");

  /// The current tensor; while a graph is captured, the traced one.
  Tensor value() const;
  /// An undefined tensor if the variable was never made: a weight that a module leaves out.
  Tensor value_or_none() const { return defined() ? value() : Tensor(); }
  operator Tensor() const {
    return value();
  }  // NOLINT(google-explicit-constructor): a variable is used like its tensor

  /// Throws ShapeError or DTypeError if the type would change: graphs and optimizers rely on it.
  void assign(const Tensor& value, Location where = Location::current());

  const std::string& name() const { return state_->name; }
  void rename(std::string name) { state_->name = std::move(name); }
  TensorType type() const { return state_->value.type(); }
  bool defined() const { return static_cast<bool>(state_); }
  VariableState* state() const { return state_.get(); }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

  /// For transforms: later reads give `value`; returns the value that they gave before. Not an assignment: nothing is
  /// checked.
  Tensor exchange(const Tensor& value) const;

 private:
  void note(const Tensor& current) const;

  Reference<VariableState> state_;
};

/// A variable that was used, and its value at that time.
struct VariableRead {
  Variable variable;
  Tensor value;
};

/// Records every variable that is read or assigned on this thread while it lives.
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

/// While it lives, the variables have the recorded values; its destructor restores the values from before, regardless
/// of any assignments in between.
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
