#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/interpreter.h"

namespace diptych {

struct VariableRead;

/// How programs run that don't specify it: modules, gradient transforms and optimizer steps run op by op, or each as a
/// graph.
enum class Mode : std::uint8_t { eager, graph };

/// The only thread-local interpreter state. Everything that an op call has to check is in one place, so that the eager
/// path costs one thread-local access.
struct ThreadContext {
  Interpreter* interpreter = nullptr;  ///< ops are handed to it; null: direct eager
  Interpreter* dispatch = nullptr;     ///< the interpreter while nothing is traced: pipelined dispatch, or null
  bool grad_enabled = true;
  bool save_all = false;  ///< the tape keeps every input and output, because forward mode will read them
  Mode mode = Mode::eager;
  std::vector<VariableRead>* variable_reads = nullptr;  ///< if set, records the variables that are used
  std::uint64_t dispatches = 0;                         ///< number of ops that this thread has applied

  /// The capture that records the ops, or null: eager.
  Tracer* tracer() const { return interpreter != nullptr ? interpreter->tracer() : nullptr; }
  bool inlines_graphs() const { return interpreter != nullptr && interpreter->inlines_graphs(); }
};

inline constinit thread_local ThreadContext thread_context{};

/// Sets the mode of the calling thread; the model's code stays the same.
inline void set_mode(Mode mode) { thread_context.mode = mode; }
inline Mode mode() { return thread_context.mode; }
/// Whether a module or a transform should capture a graph of its own now.
inline bool wants_graph() { return thread_context.mode == Mode::graph && !thread_context.inlines_graphs(); }

/// While this lives, ops on this thread record nothing on the tape.
class NoGrad {
 public:
  NoGrad() : previous_(thread_context.grad_enabled) { thread_context.grad_enabled = false; }
  ~NoGrad() { thread_context.grad_enabled = previous_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

/// The opposite, for transforms that need the tape regardless of the surrounding code.
class EnableGrad {
 public:
  EnableGrad() : previous_(thread_context.grad_enabled) { thread_context.grad_enabled = true; }
  ~EnableGrad() { thread_context.grad_enabled = previous_; }
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};

/// While this lives, ops on this thread compute, even inside a capture.
class EagerScope {
 public:
  EagerScope() : previous_(thread_context.interpreter) { thread_context.interpreter = thread_context.dispatch; }
  ~EagerScope() { thread_context.interpreter = previous_; }
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

 private:
  Interpreter* previous_;
};

/// Runs `fn` without recording on the tape.
template <class Fn>
decltype(auto) no_grad(Fn&& fn) {
  const NoGrad guard;
  return fn();
}

}  // namespace diptych
