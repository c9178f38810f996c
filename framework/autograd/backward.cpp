#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "framework/autograd/tape.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych::autograd {
namespace {

/// What one backward pass knows of a node.
struct Visit {
  TapeNode* node = nullptr;
  bool reaches_target = false;
  Tensor cotangent;            ///< of output 0, which is all that most nodes have
  std::vector<Tensor> others;  ///< of outputs 1, 2, ...
};

/// Node -> index of its visit: open addressing, because this runs once per node of every backward pass.
class VisitMap {
 public:
  VisitMap() : slots_(64, {nullptr, 0}) {}

  /// The index of `node`, and whether it is new (then it gets `next`).
  std::pair<std::uint32_t, bool> insert(const TapeNode* node, std::uint32_t next) {
    if (2 * count_ >= slots_.size()) {
      grow();
    }
    Slot& slot = find(node);
    if (slot.node != nullptr) {
      return {slot.index, false};
    }
    slot = {node, next};
    ++count_;
    return {next, true};
  }
  /// The index of `node`, or -1.
  std::int64_t lookup(const TapeNode* node) {
    const Slot& slot = find(node);
    return slot.node != nullptr ? static_cast<std::int64_t>(slot.index) : -1;
  }
  void set(const TapeNode* node, std::uint32_t index) { find(node).index = index; }

 private:
  struct Slot {
    const TapeNode* node;
    std::uint32_t index;
  };
  Slot& find(const TapeNode* node) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (std::bit_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15ULL) >> 40U;
    while (slots_[at & mask].node != nullptr && slots_[at & mask].node != node) {
      ++at;
    }
    return slots_[at & mask];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 4, {nullptr, 0});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.node != nullptr) {
        find(slot.node) = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

constexpr trace::Label kBackward{"backward", trace::Category::autograd};

/// Brings a gradient to the type of its input: sums over the axes along which the input was broadcast, and expands what
/// a rule gave in a smaller shape.
Tensor fit(const Tensor& gradient, const TensorType& type, Location where) {
  if (gradient.shape() == type.shape) {
    return gradient;
  }
  const int extra = gradient.rank() - type.shape.rank();
  Axes axes;
  for (int axis = 0; axis < gradient.rank(); ++axis) {
    if (axis < extra || (axis >= extra && type.shape[axis - extra] == 1 && gradient.shape()[axis] != 1)) {
      axes.push_back(axis);
    }
  }
  const Tensor summed = axes.empty() ? gradient : sum(gradient, axes, /*keepdims=*/true, where);
  if (summed.shape() == type.shape) {
    return summed;
  }
  return summed.numel() == type.shape.product() ? reshape(summed, type.shape, where)
                                                : expand(summed, type.shape, where);
}

class Backward {
 public:
  explicit Backward(const BackwardOptions& options, Location where) : options_(options), where_(where) {}

  BackwardResult run(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                     std::span<const Tensor> cotangents) {
    collect(outputs, targets);
    // Without an outer transform the backward pass itself needs no tape.
    if (thread_context.grad_enabled && outer_) {
      return {propagate(outputs, targets, cotangents, /*release=*/false), true};
    }
    const NoGrad guard;
    return {propagate(outputs, targets, cotangents, options_.release), outer_};
  }

 private:
  void collect(std::span<const Tensor> outputs, std::span<const Tensor> targets) {
    std::uint64_t first_target = UINT64_MAX;
    for (const Tensor& target : targets) {
      internal_check(target.requires_grad(), "gradient targets are watched");
      first_target = std::min(first_target, target.body()->tape->serial);
    }
    const auto visit = [&](TapeNode* node) {
      if (node == nullptr) {
        return;
      }
      outer_ = outer_ || node->serial < options_.outer_before;
      // Edges lead to older nodes: what is older than every target reaches none.
      if (node->serial >= first_target && map_.insert(node, static_cast<std::uint32_t>(visits_.size())).second) {
        visits_.push_back({node, false, {}, {}});
      }
    };
    for (const Tensor& output : outputs) {
      visit(output.body()->tape.get());
    }
    for (std::size_t i = 0; i < visits_.size(); ++i) {  // grows while we go
      TapeNode* node = visits_[i].node;
      for (const TapeInput& input : node->inputs()) {
        visit(input.node.get());
      }
    }
    std::sort(visits_.begin(), visits_.end(),
              [](const Visit& a, const Visit& b) { return a.node->serial > b.node->serial; });
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      map_.set(visits_[i].node, static_cast<std::uint32_t>(i));
    }
    for (const Tensor& target : targets) {
      if (Visit* found = find(target.body()->tape.get())) {
        found->reaches_target = true;
      }
    }
    for (auto visited = visits_.rbegin(); visited != visits_.rend(); ++visited) {  // oldest first
      for (const TapeInput& input : visited->node->inputs()) {
        visited->reaches_target = visited->reaches_target || leads_to_target(input);
      }
    }
  }

  std::vector<Tensor> propagate(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                                std::span<const Tensor> cotangents, bool release) {
    const trace::Zone zone(&kBackward);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorBody& body = *outputs[i].body();
      if (find(body.tape.get()) != nullptr) {
        Tensor seed = i < cotangents.size() ? cotangents[i] : Tensor();
        accumulate(body.tape.get(), body.tape_output, seed.defined() ? seed : full_like(outputs[i], 1.0, where_));
      }
    }
    for (Visit& visited : visits_) {
      if (visited.reaches_target) {
        step(visited, release);
      }
    }
    std::vector<Tensor> results;
    results.reserve(targets.size());
    for (const Tensor& target : targets) {
      const Visit* found = find(target.body()->tape.get());
      const Tensor gradient = found != nullptr ? found->cotangent : Tensor();
      results.push_back(gradient.defined() ? gradient : full_like(target, 0.0, where_));
    }
    return results;
  }

  void step(Visit& visited, bool release) {
    TapeNode& node = *visited.node;
    if (node.op == nullptr && node.custom == nullptr) {
      // A watched tensor passes its cotangent on (to a target before it, if there is one), and keeps it: it may be one.
      const TapeInput& source = node.inputs()[0];
      if (visited.cotangent.defined() && leads_to_target(source)) {
        accumulate(source.node.get(), source.output, visited.cotangent);
      }
      return;
    }
    const bool has_cotangent = visited.cotangent.defined() || std::any_of(visited.others.begin(), visited.others.end(),
                                                                          [](const Tensor& t) { return t.defined(); });
    if (!has_cotangent) {
      return;
    }
    if (node.released) {
      throw Error(fmt::format("backward: what {} had saved was freed by an earlier backward",
                              node.op != nullptr ? node.op->name : "a graph call"),
                  node.where, "compute the forward pass again");
    }
    std::uint32_t needed = 0;
    const auto inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (node.op != nullptr && leads_to_target(inputs[i])) {
        needed |= 1U << i;
      }
    }
    if (node.op != nullptr) {
      Gradients gradients = call_rule(node, visited.cotangent, needed);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (((needed >> i) & 1U) != 0 && gradients[i].defined()) {
          accumulate(inputs[i].node.get(), inputs[i].output, fit(gradients[i], inputs[i].type, node.where));
        }
      }
    } else {
      call_custom(node, visited);
    }
    if (release) {
      node.released = true;
      node.saved_output = Tensor();
      node.custom.reset();
      for (TapeInput& input : inputs) {
        input.saved = Tensor();
      }
    }
    visited.cotangent = Tensor();
    visited.others.clear();
  }

  Gradients call_rule(TapeNode& node, const Tensor& cotangent, std::uint32_t needed) {
    if (node.op->vjp == nullptr) {
      throw Error(fmt::format("backward: {} has no gradient", node.op->name), node.where,
                  "use stop_gradient on its result if it should count as constant");
    }
    Tensor saved[kMaxInputs];
    TensorType types[kMaxInputs];
    const auto inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      saved[i] = inputs[i].saved;
      types[i] = inputs[i].type;
    }
    Tensor output = node.saved_output;
    if (output.defined() && thread_context.grad_enabled) {
      output = detached_alias(output);
      output.body()->tape = Reference<TapeNode>::share(&node);
    }
    return node.op->vjp(
        {*node.op, cotangent, saved, output, types, static_cast<int>(inputs.size()), node.attributes.get(), needed});
  }

  void call_custom(TapeNode& node, Visit& visited) {
    std::vector<Tensor> cotangents(node.output_count);
    cotangents[0] = visited.cotangent;
    for (std::size_t i = 0; i < visited.others.size(); ++i) {
      cotangents[i + 1] = visited.others[i];
    }
    const std::vector<Tensor> gradients = node.custom->vjp(cotangents);
    const auto inputs = node.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (gradients[i].defined() && leads_to_target(inputs[i])) {
        accumulate(inputs[i].node.get(), inputs[i].output, gradients[i]);
      }
    }
  }

  void accumulate(TapeNode* node, std::uint32_t output, const Tensor& gradient) {
    Visit& visited = *find(node);
    if (output > visited.others.size()) {
      visited.others.resize(node->output_count - 1);
    }
    Tensor& slot = output == 0 ? visited.cotangent : visited.others[output - 1];
    slot = slot.defined() ? add(slot, gradient, node->where) : gradient;
  }

  bool leads_to_target(const TapeInput& input) {
    const Visit* source = find(input.node.get());
    return source != nullptr && source->reaches_target;
  }

  Visit* find(const TapeNode* node) {
    const std::int64_t index = node != nullptr ? map_.lookup(node) : -1;
    return index >= 0 ? &visits_[static_cast<std::size_t>(index)] : nullptr;
  }

  BackwardOptions options_;
  Location where_;
  std::vector<Visit> visits_;
  VisitMap map_;
  bool outer_ = false;
};

}  // namespace

BackwardResult gradients(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where) {
  return Backward(options, where).run(outputs, targets, cotangents);
}

}  // namespace diptych::autograd
