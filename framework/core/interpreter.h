#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "framework/core/tensor.h"

namespace diptych {

struct OpDef;
class Variable;
class Tracer;

/// Runs the ops of a thread in place of direct eager; ThreadContext points to it.
class Interpreter {
 public:
  Interpreter() = default;
  virtual ~Interpreter() = default;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// The result of an op, without a tape.
  virtual Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes,
                       Location where) = 0;

  /// The host is about to read elements: `what` is "item()", "to_vector()" or "data()".
  virtual void note_read(const TensorBody& /*body*/, const char* /*what*/, Location /*where*/) {}

  /// Null if ops compute.
  Tracer* tracer() const { return tracer_; }
  /// Whether it wants to see the ops of functions that would run as graphs.
  bool inlines_graphs() const { return inlines_graphs_; }

 protected:
  Interpreter(Tracer* tracer, bool inlines_graphs) : tracer_(tracer), inlines_graphs_(inlines_graphs) {}

 private:
  Tracer* tracer_ = nullptr;
  bool inlines_graphs_ = false;
};

/// The updates in place to a tensor's storage.
struct Updates {
  std::uint32_t version = 0;
  Location last;
};

/// For messages about a traced tensor that no tracer knows.
inline constexpr const char* kEndedCapture = "a graph whose capture has ended";

/// An interpreter that captures a graph, so ops have no elements yet. Other code that reads or writes state asks it
/// first.
class Tracer : public Interpreter {
 public:
  Tracer() : Interpreter(this, true) {}

  /// The current value of a variable.
  virtual Tensor read(const Variable& variable) = 0;
  /// Later reads give `value`.
  virtual void write(const Variable& variable, const Tensor& value) = 0;
  /// Like write(), but copies a view first: variables are dense in both modes.
  virtual void assign(const Variable& variable, const Tensor& value, Location where) = 0;

  /// An update in place: from now on, tensors that share x's storage read `value` (of x's type) there. Throws
  /// CaptureError for tensors that the function didn't make itself.
  virtual void update(const char* name, const Tensor& x, const Tensor& value, Location where) = 0;
  /// The updates that x's storage would have seen so far in eager.
  virtual Updates updates_of(const TensorBody& x) const = 0;
  /// Whether x is a view or has views.
  virtual bool has_views(const Tensor& x) const = 0;

  /// For messages: what a tensor traced here stands for, "matmul at model.cpp:12".
  virtual std::string describe(const TensorBody& body) const = 0;
};

}  // namespace diptych
