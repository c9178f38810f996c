#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/core/reference.h"
#include "framework/core/tensor_body.h"

namespace diptych {
struct OpDef;
}  // namespace diptych

/// The tape: each op with watched inputs leaves a node that refers only to its inputs' nodes and to what its gradient
/// rule reads. A node lives as long as a tensor or a later node refers to it. Reverse mode walks the tape from the
/// outputs to the inputs, forward mode the other way.
namespace diptych::autograd {

/// A gradient rule that doesn't belong to an op, for example that of a whole graph call.
class CustomRule {
 public:
  virtual ~CustomRule() = default;
  /// One gradient per input (undefined: zero), from one cotangent per output (undefined: zero). For gradients of
  /// gradients the tensors that it reads must keep their tape.
  virtual std::vector<Tensor> vjp(std::span<const Tensor> cotangents) = 0;
  /// One tangent per output (undefined: zero), from one per input (undefined: zero). Without a value, forward mode
  /// transposes vjp(), which is linear in the cotangents.
  virtual std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> /*tangents*/) { return std::nullopt; }

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
  std::uint32_t version = 0;  ///< that of the saved tensor's storage when it was saved
};

/// Called with the complete gradient with respect to a value; its result (undefined: no change) is passed on.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
struct Hook {
  GradientHook call;
  bool removed = false;  ///< a hook may remove itself while it runs
};
struct HookEntry {
  std::uint32_t output;
  std::shared_ptr<Hook> hook;
};

/// Allocated with `input_count` TapeInputs behind it. If op is null: a leaf, or a custom rule.
struct TapeNode : TapeHead {
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 1;
  bool released = false;  ///< a backward pass has freed what was saved
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

/// Records one op; `watched` has a bit set for each input with a tape.
void record(const OpDef& op, std::span<const Tensor* const> inputs, std::uint32_t watched, const void* attributes,
            Tensor& result, Location where);

/// Makes `outputs` depend on `inputs` through `rule`.
void record_custom(std::unique_ptr<CustomRule> rule, std::span<const TapeEdge> inputs, std::span<Tensor> outputs,
                   Location where);
void record_custom(std::unique_ptr<CustomRule> rule, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                   Location where);

/// A separate tensor with the same memory and the tape that `tensor` has now.
Tensor alias_with_tape(const Tensor& tensor);

/// Gives `tensor`, which was updated in place, the tape of `result`, its new value. What that tape had saved of the old
/// one keeps the old tape: else the tape would refer to the tensor, and the tensor to the tape.
void replace_tape(const Tensor& tensor, const Tensor& result);

/// A new tensor with the same elements, with respect to which gradients can be computed; still connected to the tape of
/// `tensor`. Throws DTypeError for types without gradient.
Tensor watch(const Tensor& tensor, Location where = Location::current());

/// False if certainly no gradient is wanted now: the thread doesn't record, or nothing is watched anywhere.
bool may_want_gradients();

/// Serial of the next node: nodes recorded later have this serial or a higher one.
std::uint64_t next_serial();

/// While it lives, every recorded input and output is saved, because forward mode needs them.
class SaveAll {
 public:
  SaveAll();
  ~SaveAll();
  SaveAll(const SaveAll&) = delete;
  SaveAll& operator=(const SaveAll&) = delete;

 private:
  bool previous_;
};

/// What a custom rule reads later: a tensor with the tape that it has now. Were it the tensor itself, an update in
/// place by what the rule's op gave would make the tape refer to the tensor, and the tensor to the tape.
class SavedTensor {
 public:
  explicit SavedTensor(const Tensor& tensor);
  /// Whatever was updated.
  const Tensor& tensor() const { return tensor_; }
  bool requires_grad() const { return tensor_.requires_grad(); }
  /// Throws if it was updated in place since; `name`: of what saved it, at `where`.
  void check(const char* name, Location where) const;

 private:
  Tensor tensor_;
  std::uint32_t version_;
};

/// Throws unless everything that `node` saved is still there and unchanged.
void check_saved(TapeNode& node, const char* pass);

}  // namespace diptych::autograd
