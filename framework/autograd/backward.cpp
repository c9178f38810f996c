#include "framework/autograd/backward.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/autograd/visit_map.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/view.h"

namespace diptych::autograd {
namespace {

/// The state of a node in one backward pass.
struct Visit {
  TapeNode* node = nullptr;
  bool reaches_target = false;
  bool is_target = false;
  Tensor cotangent;            ///< of output 0, the only one of most nodes
  std::vector<Tensor> others;  ///< of outputs 1, 2, ...
};

constexpr trace::Label kBackward{"backward", trace::Category::autograd};

class Backward {
 public:
  explicit Backward(const BackwardOptions& options, Location where) : options_(options), where_(where) {}

  BackwardResult run(std::span<const Tensor> outputs, std::span<const TapeEdge> targets,
                     std::span<const Tensor> cotangents) {
    const trace::Zone zone(&kBackward);
    collect(outputs, targets);
    for (const Tensor& cotangent : cotangents) {
      outer_ = outer_ || (cotangent.defined() && cotangent.requires_grad());
    }
    // Without an outer transform the backward pass itself needs no tape.
    if (thread_context.grad_enabled && outer_) {
      return {propagate(outputs, targets, cotangents, /*release=*/false), true};
    }
    const NoGrad guard;
    return {propagate(outputs, targets, cotangents, options_.release), outer_};
  }

 private:
  void collect(std::span<const Tensor> outputs, std::span<const TapeEdge> targets) {
    std::uint64_t first_target = UINT64_MAX;
    for (const TapeEdge& target : targets) {
      internal_check(static_cast<bool>(target.node), "gradient targets are watched");
      first_target = std::min(first_target, target.node->serial);
    }
    const auto visit = [&](TapeNode* node) {
      if (node == nullptr) {
        return;
      }
      outer_ = outer_ || node->serial < options_.outer_before;
      // Edges lead to older nodes: a node older than every target reaches none.
      if (node->serial >= first_target && map_.insert(node, static_cast<std::uint32_t>(visits_.size())).second) {
        visits_.push_back({node, false, false, {}, {}});
      }
    };
    for (const Tensor& output : outputs) {
      visit(output.body()->tape.get());
    }
    for (std::size_t i = 0; i < visits_.size(); ++i) {  // grows in the loop
      TapeNode* node = visits_[i].node;
      if (is_end(*node)) {
        continue;
      }
      for (const TapeInput& input : node->inputs()) {
        visit(input.node.get());
      }
    }
    std::sort(visits_.begin(), visits_.end(),
              [](const Visit& a, const Visit& b) { return a.node->serial > b.node->serial; });
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      map_.set(visits_[i].node, static_cast<std::uint32_t>(i));
    }
    for (const TapeEdge& target : targets) {
      if (Visit* found = find(target.node.get())) {
        found->reaches_target = true;
        found->is_target = true;
      }
    }
    for (auto visited = visits_.rbegin(); visited != visits_.rend(); ++visited) {  // oldest first
      if (is_end(*visited->node)) {
        continue;
      }
      for (const TapeInput& input : visited->node->inputs()) {
        visited->reaches_target = visited->reaches_target || leads_to_target(input);
      }
    }
  }

  /// Whether the caller takes the value as given.
  bool is_end(const TapeNode& node) const { return node.serial < options_.boundary; }

  std::vector<Tensor> propagate(std::span<const Tensor> outputs, std::span<const TapeEdge> targets,
                                std::span<const Tensor> cotangents, bool release) {
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
    for (const TapeEdge& target : targets) {
      const Visit* found = find(target.node.get());
      Tensor gradient;
      if (found != nullptr && target.output == 0) {
        gradient = found->cotangent;
      } else if (found != nullptr && target.output <= found->others.size()) {
        gradient = found->others[target.output - 1];
      }
      results.push_back(gradient.defined() || options_.leaves_undefined
                            ? gradient
                            : full(target.type.shape, 0.0, target.type.dtype, where_));
    }
    return results;
  }

  void step(Visit& visited, bool release) {
    TapeNode& node = *visited.node;
    const bool has_cotangent = visited.cotangent.defined() || std::any_of(visited.others.begin(), visited.others.end(),
                                                                          [](const Tensor& t) { return t.defined(); });
    if (!has_cotangent || is_end(node)) {
      return;
    }
    if (node.hooks != nullptr) {
      call_hooks(visited);
    }
    const auto inputs = node.inputs();
    std::uint32_t needed = 0;  // for an op's inputs, at most kMaxInputs; a custom rule has any number
    bool any_needed = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool leads = leads_to_target(inputs[i]);
      any_needed = any_needed || leads;
      needed |= leads && i < kMaxInputs ? 1U << i : 0;
    }
    if (!any_needed) {
      return;  // a target keeps its cotangent
    }
    if (node.op == nullptr && node.custom == nullptr && !node.released) {
      // A watched tensor passes its cotangent on and also keeps it, because it may be a target.
      accumulate(inputs[0].node.get(), inputs[0].output, visited.cotangent);
      return;
    }
    check_saved(node, "backward");
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
    if (!visited.is_target) {
      visited.cotangent = Tensor();
      visited.others.clear();
    }
  }

  static void call_hooks(Visit& visited) {
    const std::vector<HookEntry> hooks = *visited.node->hooks;  // a hook may register others
    for (const HookEntry& entry : hooks) {
      if (entry.hook->removed || entry.output > visited.others.size()) {
        continue;
      }
      Tensor& cotangent = entry.output == 0 ? visited.cotangent : visited.others[entry.output - 1];
      if (!cotangent.defined()) {
        continue;
      }
      const Tensor replaced = entry.hook->call(cotangent);
      if (!replaced.defined()) {
        continue;
      }
      if (replaced.type() != cotangent.type()) {
        throw ShapeError(fmt::format("backward: a hook gave {} for a gradient of {}", to_string(replaced.type()),
                                     to_string(cotangent.type())),
                         visited.node->where, "a hook returns a gradient of the same type, or an undefined tensor");
      }
      cotangent = replaced;
    }
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

BackwardResult gradients(std::span<const Tensor> outputs, std::span<const TapeEdge> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where) {
  return Backward(options, where).run(outputs, targets, cotangents);
}

BackwardResult gradients(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where) {
  std::vector<TapeEdge> edges;
  edges.reserve(targets.size());
  for (const Tensor& target : targets) {
    edges.push_back(edge_of(target));
  }
  return gradients(outputs, edges, cotangents, options, where);
}

std::vector<TapeEdge> dependencies(std::span<const Tensor> outputs, std::uint64_t boundary) {
  VisitMap seen;
  std::vector<TapeNode*> nodes;
  std::vector<TapeEdge> found;
  const auto visit = [&](const TapeEdge& edge) {
    if (edge.node && edge.node->serial < boundary) {
      const bool known = std::any_of(found.begin(), found.end(), [&](const TapeEdge& other) {
        return other.node == edge.node && other.output == edge.output;
      });
      if (!known) {
        found.push_back(edge);
      }
    } else if (edge.node && seen.insert(edge.node.get(), static_cast<std::uint32_t>(nodes.size())).second) {
      nodes.push_back(edge.node.get());
    }
  };
  for (const Tensor& output : outputs) {
    visit(edge_of(output));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {  // grows in the loop
    for (const TapeInput& input : nodes[i]->inputs()) {
      visit(input);
    }
  }
  return found;
}

}  // namespace diptych::autograd
