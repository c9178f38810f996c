#pragma once

#include <cstdint>
#include <vector>

namespace diptych {

namespace graph {
class Capture;
}
struct VariableRead;
namespace runtime {
class LaunchQueue;
}

/// How programs run that don't say it themselves: modules, gradient transforms and optimizer steps are run op by op, or
/// each as a graph.
enum class Mode : std::uint8_t { eager, graph };

/// The one thread-local interpreter state. Everything that an op call has to ask stands side by side here, so that the
/// eager path costs one thread-local access.
struct ThreadContext {
  graph::Capture* capture = nullptr;  ///< the graph under capture, or null: eager
  bool grad_enabled = true;
  bool save_all = false;  ///< the tape keeps every input and output: forward mode will read them
  Mode mode = Mode::eager;
  std::vector<VariableRead>* variable_reads = nullptr;  ///< if set, notes the variables that are used
  std::uint64_t dispatches = 0;                         ///< ops that this thread has applied
  runtime::LaunchQueue* launch_queue = nullptr;         ///< eager kernels go there, or null: they run on the spot
};

inline constinit thread_local ThreadContext thread_context{};

/// Switches the calling thread's programs; the model's code stays the same.
inline void set_mode(Mode mode) { thread_context.mode = mode; }
inline Mode mode() { return thread_context.mode; }
/// Whether a module or a transform should make a graph of its own now.
inline bool wants_graph() { return thread_context.mode == Mode::graph && thread_context.capture == nullptr; }

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

/// The opposite, for transforms that need the tape whatever is around them.
class EnableGrad {
 public:
  EnableGrad() : previous_(thread_context.grad_enabled) { thread_context.grad_enabled = true; }
  ~EnableGrad() { thread_context.grad_enabled = previous_; }
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool previous_;
};

/// Runs `fn` without recording.
template <class Fn>
decltype(auto) no_grad(Fn&& fn) {
  const NoGrad guard;
  return fn();
}

}  // namespace diptych
