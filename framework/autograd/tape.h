#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/core/reference.h"
#include "framework/ops/op.h"

/// The tape: each op whose inputs are watched leaves a node that knows its inputs' nodes, what its gradient rule reads,
/// and nothing else. A node lives as long as a tensor or a later node refers to it. Reverse mode walks it from the
/// outputs to the inputs, forward mode the other way.
namespace diptych::autograd {

struct TapeNode;
void destroy(TapeNode* node) noexcept;

/// A gradient rule that isn't an op's, for example of a whole graph call.
class CustomRule {
 public:
  virtual ~CustomRule() = default;
  /// One gradient per input (undefined: zero), from one cotangent per output (undefined: zero). Gradients of gradients
  /// need what it reads to keep its tape.
  virtual std::vector<Tensor> vjp(std::span<const Tensor> cotangents) = 0;
  /// One tangent per output (undefined: zero), from one per input (undefined: zero). By default by transposing vjp(),
  /// which is linear in the cotangents.
  virtual std::vector<Tensor> jvp(std::span<const Tensor> tangents);

  const std::vector<TensorType>& output_types() const { return output_types_; }

 private:
  friend void record_custom(std::unique_ptr<CustomRule> rule, std::span<const struct TapeEdge> inputs,
                            std::span<Tensor> outputs, Location where);
  std::vector<TensorType> output_types_;
};

/// A value on the tape.
struct TapeEdge {
  Reference<TapeNode> node;  ///< null: not watched
  std::uint32_t output = 0;  ///< which output of `node`
  TensorType type;
};
TapeEdge edge_of(const Tensor& tensor);

struct TapeInput : TapeEdge {
  Tensor saved;               ///< without its tape; undefined if the rule doesn't read it
  std::uint32_t version = 0;  ///< of the saved tensor's storage when it was saved
};

/// Called with the complete gradient by a value; what it returns (undefined: no change) is passed on.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
struct Hook {
  GradientHook call;
  bool removed = false;  ///< a hook may remove itself while it runs
};
struct HookEntry {
  std::uint32_t output;
  std::shared_ptr<Hook> hook;
};

/// Allocated with `input_count` TapeInputs behind it. op null: a leaf, or a custom rule.
struct TapeNode {
  ReferenceCount references;
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 1;
  bool released = false;  ///< a backward has freed what was saved
  bool is_leaf = false;   ///< made by watch()
  std::uint32_t output_version = 0;
  std::uint64_t serial = 0;
  const OpDef* op = nullptr;
  std::unique_ptr<CustomRule> custom;
  std::unique_ptr<std::vector<HookEntry>> hooks;
  Tensor saved_output;
  Location where;
  AttributeValue attributes;

  std::span<TapeInput> inputs() { return {reinterpret_cast<TapeInput*>(this + 1), input_count}; }
};

/// Records one op; `watched` has a bit for each input with a tape.
void record(const OpDef& op, std::span<const Tensor* const> inputs, std::uint32_t watched, const void* attributes,
            Tensor& result, Location where);

/// Makes `outputs` depend on `inputs` by `rule`.
void record_custom(std::unique_ptr<CustomRule> rule, std::span<const TapeEdge> inputs, std::span<Tensor> outputs,
                   Location where);
void record_custom(std::unique_ptr<CustomRule> rule, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                   Location where);

/// The same elements as a new tensor that gradients can be asked for; still connected to the tape of `tensor`. Throws
/// DTypeError for types without gradient.
Tensor watch(const Tensor& tensor, Location where = Location::current());

/// False where surely no gradient is asked for now: the thread records nothing, or nothing is watched anywhere.
bool may_want_gradients();

/// Serial of the next node: nodes recorded later have this serial or a higher one.
std::uint64_t next_serial();

struct BackwardOptions {
  /// Free what was saved as soon as it was used; a second backward through it is then an error.
  bool release = false;
  /// Nodes before this serial belong to an outer transform: if any is met, the backward pass is recorded for it.
  std::uint64_t outer_before = 0;
  /// Nodes before this serial are ends: their gradients are collected, but not passed on.
  std::uint64_t boundary = 0;
};

struct BackwardResult {
  std::vector<Tensor> gradients;
  bool outer = false;  ///< an outer transform's node was met: the results matter to it
};

/// The gradients of sum_i <outputs[i], cotangents[i]> by `targets` (watched tensors, or values on the tape). An
/// undefined cotangent means ones. A target that doesn't matter gets zeros.
BackwardResult gradients(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where);
BackwardResult gradients(std::span<const Tensor> outputs, std::span<const TapeEdge> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where);

/// The values before `boundary` that `outputs` were computed from, each once: what a function has closed over.
std::vector<TapeEdge> dependencies(std::span<const Tensor> outputs, std::uint64_t boundary);

/// Reads every input and output that is recorded while it lives: forward mode needs them.
class SaveAll {
 public:
  SaveAll();
  ~SaveAll();
  SaveAll(const SaveAll&) = delete;
  SaveAll& operator=(const SaveAll&) = delete;

 private:
  bool previous_;
};

struct ForwardResult {
  std::vector<Tensor> tangents;  ///< one per output; undefined: zero
  bool outer = false;            ///< as in BackwardResult
};
/// Forward mode: the tangents of `outputs` for `tangents` of `inputs` (watched tensors), by one sweep over the tape
/// from the inputs to the outputs. The tape must have been recorded under SaveAll.
ForwardResult push_forward(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                           std::span<const Tensor> outputs, std::uint64_t outer_before, Location where);

/// Brings a gradient to the type of its input: sums over the axes along which the input was broadcast, and expands what
/// a rule gave in a smaller shape.
Tensor fit(const Tensor& gradient, const TensorType& type, Location where);

/// Throws unless what `node` saved is still there and unchanged.
void check_saved(TapeNode& node, const char* pass);

}  // namespace diptych::autograd
