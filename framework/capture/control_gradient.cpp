// The gradient of control flow is control flow: cond gives cond; scan gives a scan in the other direction over the
// carries stored by the forward pass; and while_loop, if a bound allows it to store them, gives the same scan over as
// many rows as there were iterations. Forward mode is the same control flow on values and tangents, and needs no bound.
// Each rule recomputes its region. Eager and graph use the same rules, so that sums of cotangents have the same order
// in both.

#include <algorithm>

#include <fmt/format.h>

#include "framework/capture/control_apply.h"
#include "framework/capture/control_flow.h"
#include "framework/capture/region.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/dispatch/tape.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {
namespace {

/// The region without its effects: the passes of a gradient recompute it, and its output has already been shown.
std::shared_ptr<const Graph> without_effects(const std::shared_ptr<const Graph>& region) {
  if (std::none_of(region->nodes.begin(), region->nodes.end(), has_effect)) {
    return region;
  }
  auto pure = std::make_shared<Graph>(*region);
  std::vector<bool> used(pure->types.size(), false);
  for (const Node& node : pure->nodes) {
    for (ValueId input : node.inputs) {
      used[input] = true;
    }
  }
  for (ValueId output : pure->outputs) {
    used[output] = true;
  }
  std::erase_if(pure->nodes, [&](const Node& node) { return node.op->effect && !used[node.output()]; });
  for (Node& node : pure->nodes) {
    for (auto& inner : node.regions) {
      inner = without_effects(inner);
    }
  }
  return pure;
}

using Indices = std::vector<std::size_t>;

Tensor or_zeros(const Tensor& cotangent, const TensorType& type, Location where) {
  return cotangent.defined() ? cotangent : full(type.shape, 0.0, type.dtype, where);
}

/// Of tensors, or saved ones.
template <class Tensors>
Indices watched_indices(const Tensors& tensors) {
  Indices indices;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].requires_grad()) {
      indices.push_back(i);
    }
  }
  return indices;
}

/// What a rule reads of the op `name` at `where`, for the backward pass.
class SavedInputs {
 public:
  SavedInputs(std::span<const Tensor> inputs, const char* name, Location where)
      : tensors_(inputs.begin(), inputs.end()), name_(name), where_(where) {}

  std::size_t size() const { return tensors_.size(); }
  /// Detached from the tape unless that pass is recorded too. Throws if one was updated in place since.
  std::vector<Tensor> read() const {
    std::vector<Tensor> tensors;
    for (const autograd::SavedTensor& saved : tensors_) {
      saved.check(name_, where_);
      tensors.push_back(thread_context.grad_enabled ? saved.tensor() : detached_alias(saved.tensor()));
    }
    return tensors;
  }
  /// Those that gradients are wanted by.
  Indices watched() const { return watched_indices(tensors_); }

 private:
  std::vector<autograd::SavedTensor> tensors_;
  const char* name_;
  Location where_;
};

Indices defined_indices(std::span<const Tensor> tensors) {
  Indices indices;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) {
      indices.push_back(i);
    }
  }
  return indices;
}

std::vector<Tensor> defined(std::vector<Tensor> tensors) {
  std::erase_if(tensors, [](const Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

/// `tensors` has one tensor per floating-point type; the result has each at that type's place among all.
std::vector<Tensor> by_floating(std::span<const TensorType> types, std::span<const Tensor> tensors) {
  std::vector<Tensor> result;
  std::size_t next = 0;
  for (const TensorType& type : types) {
    result.push_back(is_floating(type.dtype) && next < tensors.size() ? tensors[next++] : Tensor());
  }
  return result;
}

/// The body of a loop on values and tangents. Carries: the values, then the tangents of the floating-point ones. Rows:
/// xs, then the tangents of some of them.
struct DualBody {
  const Graph& body;
  std::size_t carries;
  std::size_t scanned;
  std::vector<Tensor> closed;
  Indices targets;  ///< inputs of the body with tangents: floating-point carries, then xs, then closed
  std::size_t carry_tangents;
  std::vector<Tensor> closed_tangents;
  Location where;

  /// New carries, then the tangents of ys.
  std::vector<Tensor> operator()(std::span<const Tensor> arguments) const {
    const auto values = arguments.first(carries);
    const auto tangents = arguments.subspan(carries, carry_tangents);
    const auto rows = arguments.subspan(carries + carry_tangents);
    std::vector<Tensor> inputs(values.begin(), values.end());
    inputs.insert(inputs.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(scanned));
    inputs.insert(inputs.end(), closed.begin(), closed.end());
    std::vector<Tensor> all(tangents.begin(), tangents.end());
    all.insert(all.end(), rows.begin() + static_cast<std::ptrdiff_t>(scanned), rows.end());
    all.insert(all.end(), closed_tangents.begin(), closed_tangents.end());
    const RegionTangents dual = region_jvp(body, inputs, targets, all, where);
    std::vector<Tensor> results(dual.values.begin(), dual.values.begin() + static_cast<std::ptrdiff_t>(carries));
    const std::vector<Tensor> given = defined(dual.tangents);
    results.insert(results.end(), given.begin(), given.end());
    return results;
  }
};

/// The inputs of a loop's dual, as they are collected: carries with tangents, xs with tangents, and the body.
struct DualLoop {
  std::vector<Tensor> init;
  std::vector<Tensor> xs;
  DualBody body;

  DualLoop(const Graph& region, std::size_t carries, std::size_t scanned, const std::vector<Tensor>& inputs,
           std::span<const Tensor> tangents, Location where)
      : body{region, carries, scanned, {}, {}, 0, {}, where} {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      (i < carries ? init : i < carries + scanned ? xs : body.closed).push_back(inputs[i]);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_carry = i < carries && is_floating(inputs[i].dtype());
      if (is_carry || tangents[i].defined()) {
        body.targets.push_back(i);
        (i < carries             ? init
         : i < carries + scanned ? xs
                                 : body.closed_tangents)
            .push_back(or_zeros(tangents[i], inputs[i].type(), where));
      }
    }
    body.carry_tangents = init.size() - carries;
  }
};

class CondRule final : public autograd::CustomRule {
 public:
  CondRule(const Regions& regions, std::span<const Tensor> inputs, Location where)
      : regions_{without_effects(regions[0]), without_effects(regions[1])},
        predicate_(inputs.first(1), cond_op().name, where),
        inputs_(inputs.subspan(1), cond_op().name, where),
        where_(where) {}

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    const Indices targets = inputs_.watched();
    std::vector<Tensor> operands = inputs_.read();
    Indices outputs;
    for (std::size_t i = 0; i < cotangents.size(); ++i) {
      if (cotangents[i].defined()) {
        outputs.push_back(i);
        operands.push_back(cotangents[i]);
      }
    }
    const std::size_t count = inputs_.size();
    const auto backward = [&](const Graph& branch) {
      return [&](std::span<const Tensor> arguments) {
        return region_vjp(branch, arguments.first(count), outputs, arguments.subspan(count), targets, where_);
      };
    };
    const std::vector<Tensor> flat =
        cond_flat(predicate_.read()[0], backward(*regions_[0]), backward(*regions_[1]), operands, where_);
    std::vector<Tensor> gradients(count);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      gradients[targets[i]] = flat[i];
    }
    return gradients;
  }

  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override {
    const Indices targets = defined_indices(tangents);
    std::vector<Tensor> operands = inputs_.read();
    const std::size_t count = operands.size();
    for (std::size_t target : targets) {
      operands.push_back(tangents[target]);
    }
    const auto forward = [&](const Graph& branch) {
      return [&](std::span<const Tensor> arguments) {
        return defined(region_jvp(branch, arguments.first(count), targets, arguments.subspan(count), where_).tangents);
      };
    };
    return by_floating(output_types(),
                       cond_flat(predicate_.read()[0], forward(*regions_[0]), forward(*regions_[1]), operands, where_));
  }

 private:
  Regions regions_;
  SavedInputs predicate_;
  SavedInputs inputs_;
  Location where_;
};

/// The rule of scan, and of while_loop as a scan over nothing, bounded by the number of its iterations.
class LoopRule final : public autograd::CustomRule {
 public:
  /// The last outputs of `body` are the carries that it was given; `inputs`: carries, xs, closed.
  LoopRule(const ScanAttributes& attributes, const std::shared_ptr<const Graph>& body, Tensor count,
           std::span<const Tensor> inputs, const char* name, Location where)
      : attributes_(attributes),
        carries_(static_cast<std::size_t>(attributes.carries)),
        scanned_(static_cast<std::size_t>(attributes.scanned)),
        body_(without_effects(body)),
        count_(std::move(count)),
        inputs_(inputs, name, where),
        where_(where) {}

  /// `history`: the outputs of the tape node from `first` on; the node owns this rule.
  void set_history(std::span<const Tensor> history, std::uint32_t first, autograd::TapeNode* node) {
    for (const Tensor& rows : history) {
      history_.push_back(detached_alias(rows));
    }
    first_history_ = first;
    node_ = node;
  }

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    const std::vector<Tensor> inputs = inputs_.read();
    const std::span<const Tensor> closed = std::span(inputs).subspan(carries_ + scanned_);
    // The inputs to differentiate with respect to, and the outputs with cotangents, as indices of the body: carries
    // first.
    Indices targets;
    Indices outputs;
    std::vector<Tensor> init;
    for (std::size_t i = 0; i < carries_; ++i) {
      if (is_floating(inputs[i].dtype())) {
        targets.push_back(i);
        outputs.push_back(i);
        init.push_back(or_zeros(cotangents[i], inputs[i].type(), where_));
      }
    }
    const std::size_t own = init.size();
    Indices by_rows;
    Indices by_closed;
    for (std::size_t i : inputs_.watched()) {
      if (i >= carries_) {
        (i < carries_ + scanned_ ? by_rows : by_closed).push_back(i);
      }
    }
    targets.insert(targets.end(), by_closed.begin(), by_closed.end());
    targets.insert(targets.end(), by_rows.begin(), by_rows.end());
    for (std::size_t i : by_closed) {
      init.push_back(full_like(inputs[i], 0.0, where_));
    }
    std::vector<Tensor> rows = history();
    rows.insert(rows.end(), inputs.begin() + static_cast<std::ptrdiff_t>(carries_),
                inputs.begin() + static_cast<std::ptrdiff_t>(carries_ + scanned_));
    for (std::size_t i = carries_; i < body_->outputs.size(); ++i) {
      if (cotangents[i].defined()) {
        outputs.push_back(i);
        rows.push_back(cotangents[i]);
      }
    }
    const std::size_t sums = by_closed.size();
    const auto backward = [&](std::span<const Tensor> arguments) {
      const auto sums_so_far = arguments.subspan(own, sums);
      const auto given = arguments.subspan(own + sums);
      std::vector<Tensor> region_inputs(given.begin(),
                                        given.begin() + static_cast<std::ptrdiff_t>(carries_ + scanned_));
      region_inputs.insert(region_inputs.end(), closed.begin(), closed.end());
      std::vector<Tensor> region_cotangents(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(own));
      const auto of_rows = given.subspan(carries_ + scanned_);
      region_cotangents.insert(region_cotangents.end(), of_rows.begin(), of_rows.end());
      std::vector<Tensor> gradients = region_vjp(*body_, region_inputs, outputs, region_cotangents, targets, where_);
      for (std::size_t i = 0; i < sums; ++i) {
        gradients[own + i] = add(sums_so_far[i], gradients[own + i], where_);
      }
      return gradients;
    };
    const std::vector<Tensor> flat =
        scan_flat(backward, init, rows, {attributes_.length, !attributes_.reverse}, count_, where_);
    std::vector<Tensor> gradients(inputs_.size());
    for (std::size_t i = 0; i < targets.size(); ++i) {
      gradients[targets[i]] = flat[i];
    }
    return gradients;
  }

  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override {
    const DualLoop dual(*body_, carries_, scanned_, inputs_.read(), tangents, where_);
    const std::vector<Tensor> flat =
        scan_flat(dual.body, dual.init, dual.xs, {attributes_.length, attributes_.reverse}, count_, where_);
    return by_floating(output_types(), std::span(flat).subspan(carries_));
  }

 private:
  std::vector<Tensor> history() const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      result.push_back(detached_alias(history_[i]));
      if (thread_context.grad_enabled && is_floating(result.back().dtype())) {
        result.back().body()->tape = Reference<autograd::TapeNode>::share(node_);
        result.back().body()->tape_output = first_history_ + static_cast<std::uint32_t>(i);
      }
    }
    return result;
  }

  ScanAttributes attributes_;
  std::size_t carries_;
  std::size_t scanned_;
  std::shared_ptr<const Graph> body_;
  Tensor count_;
  SavedInputs inputs_;
  Location where_;
  std::vector<Tensor> history_;  ///< without its tape, which would be a cycle
  std::uint32_t first_history_ = 0;
  autograd::TapeNode* node_ = nullptr;
};

/// The rule of a while_loop without a bound: forward mode only.
class UnboundedRule final : public autograd::CustomRule {
 public:
  UnboundedRule(const WhileAttributes& attributes, const Regions& regions, std::span<const Tensor> inputs,
                Location where)
      : carries_(static_cast<std::size_t>(attributes.carries)),
        regions_{without_effects(regions[0]), without_effects(regions[1])},
        inputs_(inputs, while_op().name, where),
        where_(where) {}

  std::vector<Tensor> vjp(std::span<const Tensor> /*cotangents*/) override {
    throw Error("while_loop: the reverse mode has to store each iteration, and the loop has no bound", where_,
                "give it one, WhileOptions{.max_iterations = ...}; or use scan, or forward mode");
  }

  std::optional<std::vector<Tensor>> jvp(std::span<const Tensor> tangents) override {
    const DualLoop dual(*regions_[1], carries_, 0, inputs_.read(), tangents, where_);
    const auto condition = [&](std::span<const Tensor> arguments) {
      std::vector<Tensor> values(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(carries_));
      values.insert(values.end(), dual.body.closed.begin(), dual.body.closed.end());
      return evaluate(*regions_[0], values);
    };
    const std::vector<Tensor> flat = while_flat(condition, dual.body, dual.init, {}, where_);
    return by_floating(output_types(), std::span(flat).subspan(carries_));
  }

 private:
  std::size_t carries_;
  Regions regions_;
  SavedInputs inputs_;
  Location where_;
};

std::shared_ptr<const Graph> with_history(const Graph& body, std::size_t carries) {
  auto augmented = std::make_shared<Graph>(body);
  for (std::size_t i = 0; i < carries; ++i) {
    augmented->outputs.push_back(body.inputs[i].value);
  }
  return augmented;
}

/// Replaces `results` by new tensors that `rule` connects to `inputs`; null if no gradient is wanted.
autograd::TapeNode* connect(std::unique_ptr<autograd::CustomRule> rule, std::span<const Tensor> inputs,
                            std::vector<Tensor>& results, Location where) {
  for (Tensor& result : results) {
    result = detached_alias(result);  // a region may return one of its inputs
  }
  autograd::record_custom(std::move(rule), inputs, results, where);
  const auto found = std::find_if(results.begin(), results.end(), [](const Tensor& t) { return t.requires_grad(); });
  return found != results.end() ? found->body()->tape.get() : nullptr;
}

/// `results`: carries, ys, then the history.
std::vector<Tensor> loop_with_tape(const ScanAttributes& scan, const std::shared_ptr<const Graph>& body,
                                   std::vector<Tensor> results, const Tensor& count, std::span<const Tensor> inputs,
                                   const char* name, Location where) {
  const auto carries = static_cast<std::size_t>(scan.carries);
  auto rule = std::make_unique<LoopRule>(scan, body, count, inputs, name, where);
  LoopRule* const kept = rule.get();
  if (autograd::TapeNode* const node = connect(std::move(rule), inputs, results, where)) {
    const std::size_t first = results.size() - carries;
    kept->set_history(std::span(results).subspan(first), static_cast<std::uint32_t>(first), node);
  }
  return results;
}

}  // namespace

std::vector<Tensor> apply_control(const OpDef& op, const void* attributes, const Regions& regions,
                                  std::span<const Tensor> inputs, Location where) {
  const bool wanted = thread_context.grad_enabled && !watched_indices(inputs).empty();
  if (!wanted) {
    return run_control(op, attributes, regions, inputs, where);
  }
  const auto run = [&](const void* with, const Regions& parts) {
    const NoGrad no_tape;
    return run_control(op, with, parts, inputs, where);
  };
  if (&op == &cond_op()) {
    std::vector<Tensor> results = run(attributes, regions);
    connect(std::make_unique<CondRule>(regions, inputs, where), inputs.subspan(1), results, where);
    return results;
  }
  if (&op == &scan_op()) {
    const auto& scan = *static_cast<const ScanAttributes*>(attributes);
    const auto body = with_history(*regions[0], static_cast<std::size_t>(scan.carries));
    std::vector<Tensor> results =
        loop_with_tape(scan, body, run(attributes, {body}), scan.bounded ? inputs[0] : Tensor(),
                       inputs.subspan(scan.bounded ? 1 : 0), op.name, where);
    results.resize(regions[0]->outputs.size());
    return results;
  }
  WhileAttributes loop = *static_cast<const WhileAttributes*>(attributes);
  if (loop.limit == 0) {
    std::vector<Tensor> results = run(attributes, regions);
    connect(std::make_unique<UnboundedRule>(loop, regions, inputs, where), inputs, results, where);
    return results;
  }
  const bool recorded = loop.record;  // already, inside a region that is differentiated again
  loop.record = true;
  std::vector<Tensor> results = run(&loop, regions);
  const Tensor count = results.back();
  results.pop_back();
  const auto body = with_history(*regions[1], static_cast<std::size_t>(loop.carries));
  results = loop_with_tape({loop.carries, 0, loop.limit, false, true}, body, std::move(results), count, inputs, op.name,
                           where);
  if (recorded) {
    results.push_back(count);
  } else {
    results.resize(static_cast<std::size_t>(loop.carries));
  }
  return results;
}

}  // namespace diptych::graph
