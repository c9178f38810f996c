#include "framework/autograd/forward.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/autograd/visit_map.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/view.h"

namespace diptych::autograd {
namespace {

constexpr trace::Label kForward{"forward mode", trace::Category::autograd};

Tensor sum_of(const Tensor& a, const Tensor& b, Location where) { return a.defined() ? add(a, b, where) : b; }

/// The tangent of an op's output: by its own rule, by linearity, or, if the Jacobian is diagonal, from the reverse
/// rule.
Tensor op_tangent(const TapeNode& node, const JvpCall& call) {
  const OpDef& op = *node.op;
  if (op.jvp != nullptr) {
    return op.jvp(call);
  }
  Tensor total;
  const auto count = static_cast<std::size_t>(call.input_count);
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& tangent = call.tangents[i];
    if (!tangent.defined()) {
      continue;
    }
    if (((op.linear >> i) & 1U) != 0) {
      const Tensor* inputs[kMaxInputs];
      for (std::size_t k = 0; k < count; ++k) {
        inputs[k] = k == i ? &tangent : &call.inputs[k];
      }
      total = sum_of(total, apply(op, {inputs, count}, call.attributes, node.where), node.where);
    } else if (op.elementwise() && op.vjp != nullptr) {
      TensorType types[kMaxInputs];
      for (std::size_t k = 0; k < count; ++k) {
        types[k] = call.inputs[k].type();
      }
      const Shape& shape = call.output.shape();
      // The rule takes a cotangent of the output's type: it acts on each element of a tangent in the same way.
      const Tensor widened = cast(tangent.shape() == shape ? tangent : expand(tangent, shape, node.where),
                                  call.output.dtype(), node.where);
      const Gradients gradients =
          op.vjp({op, widened, call.inputs, call.output, types, call.input_count, call.attributes, 1U << i});
      if (gradients[i].defined()) {
        total = sum_of(total, cast(gradients[i], call.output.dtype(), node.where), node.where);
      }
    } else {
      throw Error(fmt::format("jvp: {} has no tangent by input {}", op.name, i), node.where,
                  "use stop_gradient on that input if it should count as constant");
    }
  }
  return total;
}

/// Forward mode of a rule that has no jvp().
std::vector<Tensor> transposed_vjp(CustomRule& rule, std::span<const Tensor> tangents) {
  // u -> vjp(u) is linear: its transpose, applied to the tangents, is forward mode.
  const EnableGrad enable;
  const std::uint64_t serial = next_serial();
  std::vector<Tensor> cotangents;
  std::vector<Tensor> targets;
  for (const TensorType& type : rule.output_types()) {
    cotangents.push_back(is_floating(type.dtype) ? watch(full(type.shape, 0.0, type.dtype)) : Tensor());
    if (cotangents.back().defined()) {
      targets.push_back(cotangents.back());
    }
  }
  const std::vector<Tensor> by_input = rule.vjp(cotangents);
  std::vector<Tensor> outputs;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < by_input.size(); ++i) {
    if (by_input[i].defined() && tangents[i].defined() && by_input[i].requires_grad()) {
      outputs.push_back(by_input[i]);
      seeds.push_back(tangents[i]);
    }
  }
  std::vector<Tensor> transposed = gradients(outputs, targets, seeds, {false, serial}, Location::current()).gradients;
  std::vector<Tensor> result;
  std::size_t next = 0;
  for (const Tensor& cotangent : cotangents) {
    result.push_back(cotangent.defined() ? transposed[next++] : Tensor());
  }
  return result;
}

class Forward {
 public:
  Forward(std::uint64_t outer_before, Location where) : outer_before_(outer_before), where_(where) {}

  ForwardResult run(std::span<const Tensor> inputs, std::span<const Tensor> tangents, std::span<const Tensor> outputs) {
    collect(inputs, outputs);
    for (const Tensor& tangent : tangents) {
      outer_ = outer_ || (tangent.defined() && tangent.requires_grad());
    }
    if (thread_context.grad_enabled && outer_) {
      return {sweep(inputs, tangents, outputs), true};
    }
    const NoGrad guard;
    return {sweep(inputs, tangents, outputs), outer_};
  }

 private:
  struct Visit {
    TapeNode* node;
    std::vector<Tensor> tangents;  ///< by output
  };

  void collect(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    std::uint64_t first = UINT64_MAX;
    for (const Tensor& input : inputs) {
      internal_check(input.requires_grad(), "forward mode starts at watched tensors");
      first = std::min(first, input.body()->tape->serial);
    }
    const auto visit = [&](TapeNode* node) {
      if (node == nullptr) {
        return;
      }
      outer_ = outer_ || node->serial < outer_before_;
      if (node->serial >= first && map_.insert(node, static_cast<std::uint32_t>(visits_.size())).second) {
        visits_.push_back({node, {}});
      }
    };
    for (const Tensor& output : outputs) {
      visit(output.body()->tape.get());
    }
    for (std::size_t i = 0; i < visits_.size(); ++i) {  // grows in the loop
      for (const TapeInput& input : visits_[i].node->inputs()) {
        visit(input.node.get());
      }
    }
    std::sort(visits_.begin(), visits_.end(),
              [](const Visit& a, const Visit& b) { return a.node->serial < b.node->serial; });
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      map_.set(visits_[i].node, static_cast<std::uint32_t>(i));
    }
  }

  std::vector<Tensor> sweep(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                            std::span<const Tensor> outputs) {
    const trace::Zone zone(&kForward);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (Visit* visited = find(inputs[i].body()->tape.get())) {
        visited->tangents = {tangents[i]};
      }
    }
    for (Visit& visited : visits_) {
      if (visited.tangents.empty()) {
        step(visited);
      }
    }
    std::vector<Tensor> results;
    for (const Tensor& output : outputs) {
      results.push_back(tangent_of(edge_of(output)));
    }
    return results;
  }

  void step(Visit& visited) {
    TapeNode& node = *visited.node;
    const auto inputs = node.inputs();
    std::vector<Tensor> tangents;
    bool any = false;
    for (const TapeInput& input : inputs) {
      tangents.push_back(tangent_of(input));
      any = any || tangents.back().defined();
    }
    if (!any) {
      return;
    }
    if (node.op == nullptr && node.custom == nullptr && !node.released) {
      visited.tangents = {tangents[0]};
      return;
    }
    check_saved(node, "jvp");
    if (node.custom != nullptr) {
      std::optional<std::vector<Tensor>> own = node.custom->jvp(tangents);
      visited.tangents = own ? std::move(*own) : transposed_vjp(*node.custom, tangents);
      return;
    }
    Tensor saved[kMaxInputs];
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      internal_check(inputs[i].saved.defined(), "forward mode needs a tape that saved everything");
      saved[i] = inputs[i].saved;
    }
    Tensor output = node.saved_output;
    if (thread_context.grad_enabled) {
      output = detached_alias(output);
      output.body()->tape = Reference<TapeNode>::share(&node);
    }
    Tensor tangent = op_tangent(
        node, {*node.op, saved, output, tangents.data(), static_cast<int>(inputs.size()), node.attributes.get()});
    if (tangent.defined() && tangent.shape() != output.shape()) {
      tangent = expand(tangent, output.shape(), node.where);
    }
    visited.tangents = {tangent};
  }

  Tensor tangent_of(const TapeEdge& edge) {
    const Visit* visited = edge.node ? find(edge.node.get()) : nullptr;
    return visited != nullptr && edge.output < visited->tangents.size() ? visited->tangents[edge.output] : Tensor();
  }
  Visit* find(const TapeNode* node) {
    const std::int64_t index = map_.lookup(node);
    return index >= 0 ? &visits_[static_cast<std::size_t>(index)] : nullptr;
  }

  std::uint64_t outer_before_;
  Location where_;
  std::vector<Visit> visits_;
  VisitMap map_;
  bool outer_ = false;
};

}  // namespace

ForwardResult push_forward(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                           std::span<const Tensor> outputs, std::uint64_t outer_before, Location where) {
  return Forward(outer_before, where).run(inputs, tangents, outputs);
}

}  // namespace diptych::autograd
