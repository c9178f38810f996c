#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/core/reference.h"
#include "framework/ops/op.h"

/// The reverse-mode tape: each op whose inputs are watched leaves a node that knows its inputs' nodes, what its
/// gradient rule reads, and nothing else. A node lives as long as a tensor or a later node refers to it.
namespace diptych::autograd {

struct TapeNode;
void destroy(TapeNode* node) noexcept;

/// A gradient rule that isn't an op's, for example of a whole graph call.
class CustomRule {
 public:
  virtual ~CustomRule() = default;
  /// One gradient per input (undefined: zero), from one cotangent per output (undefined: zero).
  virtual std::vector<Tensor> vjp(std::span<const Tensor> cotangents) = 0;
};

struct TapeInput {
  Reference<TapeNode> node;  ///< null: not watched
  std::uint32_t output = 0;  ///< which output of `node`
  TensorType type;
  Tensor saved;  ///< without its tape; undefined if the rule doesn't read it
};

/// Allocated with `input_count` TapeInputs behind it. op null: a leaf, or a custom rule.
struct TapeNode {
  ReferenceCount references;
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 1;
  bool released = false;  ///< a backward has freed what was saved
  bool is_leaf = false;   ///< made by watch()
  std::uint64_t serial = 0;
  const OpDef* op = nullptr;
  std::unique_ptr<CustomRule> custom;
  Tensor saved_output;
  Location where;
  AttributeValue attributes;

  std::span<TapeInput> inputs() { return {reinterpret_cast<TapeInput*>(this + 1), input_count}; }
};

/// Records one op; `watched` has a bit for each input with a tape.
void record(const OpDef& op, std::span<const Tensor* const> inputs, std::uint32_t watched, const void* attributes,
            Tensor& result, Location where);

/// Makes `outputs` depend on `inputs` by `rule`.
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
};

struct BackwardResult {
  std::vector<Tensor> gradients;
  bool outer = false;  ///< an outer transform's node was met: the results matter to it
};

/// The gradients of sum_i <outputs[i], cotangents[i]> by `targets` (watched tensors). An undefined cotangent means
/// ones. A target that doesn't matter gets zeros.
BackwardResult gradients(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where);

}  // namespace diptych::autograd
