#include "framework/transforms/call_gradient.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "framework/autograd/backward.h"
#include "framework/core/context.h"
#include "framework/ops/creation.h"
#include "framework/ops/debug.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {
namespace {

/// Those of `flat` where `wanted` holds, and undefined tensors between them.
std::vector<Tensor> by_input(const std::vector<bool>& wanted, std::span<const Tensor> flat) {
  std::vector<Tensor> gradients(wanted.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) {
      gradients[i] = flat[next++];
    }
  }
  return gradients;
}

/// The gradient of a graph call.
class GraphCallRule final : public autograd::CustomRule {
 public:
  explicit GraphCallRule(RecordedCall call) : call_(std::move(call)) {}

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    ResultSet given(call_.outputs.size(), false);
    std::vector<Tensor> of_given;
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      given[i] = is_floating(call_.outputs[i].dtype) && cotangents[i].defined();
      if (given[i]) {
        of_given.push_back(cotangents[i]);
      }
    }
    const bool has_gradient = is_recorded(of_given);
    const SplitCall::Backward* const backward = has_gradient ? nullptr : backward_of(given);
    std::vector<Tensor> arguments = read(backward);
    std::vector<Tensor> gradients;
    if (backward == nullptr) {
      gradients = call_.gradient->call(arguments, {call_.wanted, given}, of_given, *call_.use, call_.where);
    } else {
      for (const Tensor& cotangent : of_given) {
        arguments.push_back(cotangent.is_contiguous() ? cotangent : copy(cotangent, call_.where));
      }
      std::vector<Tensor> flat;
      backward->executable->run(arguments, flat);
      call_.use->taken.fetch_add(1, std::memory_order_relaxed);
      gradients = by_input(backward->wanted, flat);
    }
    if (!has_gradient) {
      call_.gradient->sets().note(given);
    }
    return gradients;
  }

 private:
  /// Whether this gradient is to have a gradient, or is part of another graph.
  bool is_recorded(std::span<const Tensor> cotangents) const {
    const auto is_watched = [](const auto& tensor) { return tensor.requires_grad(); };
    const auto inputs = std::span(call_.kept).first(call_.inputs);
    return thread_context.inlines_graphs() ||
           (thread_context.grad_enabled && (std::any_of(inputs.begin(), inputs.end(), is_watched) ||
                                            std::any_of(cotangents.begin(), cotangents.end(), is_watched)));
  }

  /// Null if the call wasn't cut for these results.
  const SplitCall::Backward* backward_of(const ResultSet& given) const {
    if (call_.split == nullptr) {
      return nullptr;
    }
    const auto& known = call_.split->backwards;
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const SplitCall::Backward& backward) { return backward.given == given; });
    return found == known.end() ? nullptr : &*found;
  }

  /// The inputs, and for a backward graph what is saved. Throws if something that is read was updated in place since.
  std::vector<Tensor> read(const SplitCall::Backward* backward) const {
    const std::size_t count = call_.inputs + (backward == nullptr ? 0 : call_.saved);
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < call_.kept.size(); ++i) {
      const bool is_saved = i >= call_.inputs && i < call_.inputs + call_.saved;
      if (backward == nullptr ? !is_saved : bool(backward->reads[i])) {
        call_.kept[i].check("a graph call", call_.where);
      }
      if (i < count) {
        tensors.push_back(call_.kept[i].tensor());
      }
    }
    return tensors;
  }

  RecordedCall call_;
};

}  // namespace

std::unique_ptr<autograd::CustomRule> rule_of_call(RecordedCall call) {
  return std::make_unique<GraphCallRule>(std::move(call));
}

GradientSets::Expected GradientSets::expected(std::span<const TensorType> results) const {
  ResultSet all;
  std::transform(results.begin(), results.end(), std::back_inserter(all),
                 [](const TensorType& type) { return is_floating(type.dtype); });
  Expected expected;
  {
    const CallLock::Scope scope(lock_);
    for (const auto& [given, last] : seen_) {  // of functions whose results differ by signature, some don't fit
      const auto fits = [](bool is_given, bool is_possible) { return !is_given || is_possible; };
      if (given.size() == all.size() && std::equal(given.begin(), given.end(), all.begin(), fits)) {
        expected.sets.push_back(given);
      }
    }
  }
  if (!expected.sets.empty()) {
    return expected;
  }
  expected = {{all}, true};
  const auto count = static_cast<std::size_t>(std::count(all.begin(), all.end(), true));
  for (std::size_t i = 0; i < all.size() && count > 1; ++i) {
    if (all[i] && (count < kMost || expected.sets.size() == 1)) {  // of many the first one, which may be a loss
      expected.sets.emplace_back(all.size(), false);
      expected.sets.back()[i] = true;
    }
  }
  return expected;
}

void GradientSets::note(const ResultSet& given) {
  const CallLock::Scope scope(lock_);
  const std::uint64_t now = ++gradients_;
  const auto known = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& seen) { return seen.given == given; });
  if (known != seen_.end()) {
    known->last = now;
    return;
  }
  if (seen_.size() < kMost) {
    seen_.push_back({given, now});
    return;
  }
  const auto oldest =
      std::min_element(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) { return a.last < b.last; });
  if (now - oldest->last > kForgotten) {  // not sooner: each time it is compiled anew
    *oldest = {given, now};
  }
}

CallGradient::CallGradient(JitFunction::Function function, std::size_t argument_count, Variables states,
                           JitOptions options, std::shared_ptr<CallLock> turns, std::shared_ptr<GradientSets> sets)
    : function_(std::move(function)),
      argument_count_(argument_count),
      states_(std::move(states)),
      options_(std::move(options)),
      turns_(std::move(turns)),
      sets_(std::move(sets)),
      cache_(make_jit_cache(options_.capacity, turns_)) {
  options_.name += ".backward";
  options_.pipeline.vetoed.clear();  // values of another graph
}

std::vector<Tensor> CallGradient::call(std::span<const Tensor> inputs, const Which& which,
                                       std::span<const Tensor> cotangents, GradientUse& use, Location where) {
  const auto gradients = [](const JitFunction::Function& forward, std::size_t argument_count,
                            const Variables& variables, std::span<const Tensor> all, const Which& of) {
    const std::size_t count = argument_count + variables.size();
    const std::vector<Tensor> behind(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
    const Cotangents set{of.given, behind};
    return std::move(
        gradients_of(forward, argument_count, variables, all.first(count), of.wanted, {&set, 1}, nullptr)[0]);
  };
  std::vector<Tensor> tensors(inputs.begin(), inputs.end());
  tensors.insert(tensors.end(), cotangents.begin(), cotangents.end());
  if (thread_context.inlines_graphs()) {
    return gradients(function_, argument_count_, states_, tensors, which);
  }
  const CallLock::Scope turn(*turns_);
  const auto known = functions_.find(which);
  if (known == functions_.end()) {
    std::erase_if(functions_, [](const auto& other) { return other.second.is_empty(); });
  }
  JitFunction& function =
      known != functions_.end()
          ? known->second
          : functions_
                .try_emplace(
                    which,
                    [gradients, forward = function_, argument_count = argument_count_, variables = states_, which](
                        std::span<const Tensor> all, std::shared_ptr<void>& structure) {
                      std::vector<Tensor> some = gradients(forward, argument_count, variables, all, which);
                      auto has = std::make_shared<std::vector<bool>>();
                      for (const Tensor& gradient : some) {
                        has->push_back(gradient.defined());
                      }
                      std::erase_if(some, [](const Tensor& gradient) { return !gradient.defined(); });
                      structure = std::move(has);
                      return some;
                    },
                    options_, cache_)
                .first->second;
  const std::size_t compiled = function.ledger().size();
  const JitFunction::Result result = function.call(tensors, where);
  use.again.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t line = compiled; line < function.ledger().size(); ++line) {
    use.again_seconds.fetch_add(function.ledger()[line].seconds(), std::memory_order_relaxed);
  }
  return by_input(*static_cast<const std::vector<bool>*>(result.structure.get()), result.outputs);
}

std::vector<std::vector<Tensor>> gradients_of(const JitFunction::Function& forward, std::size_t argument_count,
                                              const Variables& variables, std::span<const Tensor> inputs,
                                              const std::vector<bool>& wanted, std::span<const Cotangents> sets,
                                              std::vector<Tensor>* results) {
  const EnableGrad enable;  // captured from within a backward pass, which doesn't record
  const std::uint64_t entry_serial = autograd::next_serial();
  std::vector<Tensor> watched;
  std::vector<Tensor> targets;
  std::vector<bool> is_target;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    is_target.push_back(is_floating(inputs[i].dtype()) && wanted[i]);
    watched.push_back(is_target[i] ? autograd::watch(inputs[i]) : inputs[i]);
    if (is_target[i]) {
      targets.push_back(watched.back());
    }
  }
  std::vector<VariableRead> reads;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    reads.push_back({variables[i], watched[argument_count + i]});
  }
  const Rebind rebind(reads);
  const std::vector<Tensor> all = [&] {
    std::shared_ptr<void> ignored;
    std::optional<debug::Unobserved> again;  // the call itself has shown what is computed here for its gradient alone
    if (results == nullptr) {
      again.emplace();
    }
    return forward(std::span(watched).first(argument_count), ignored);
  }();
  if (results != nullptr) {
    *results = all;
  }
  std::vector<std::vector<Tensor>> gradients;
  for (const Cotangents& set : sets) {
    std::vector<Tensor> of_given;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (set.given[i]) {
        of_given.push_back(all[i]);
      }
    }
    const bool is_last = &set == &sets.back();
    autograd::BackwardOptions options{is_last, entry_serial};
    options.leaves_undefined = true;
    gradients.push_back(by_input(
        is_target, autograd::gradients(of_given, targets, set.tensors, options, Location::current()).gradients));
  }
  return gradients;
}

}  // namespace diptych::graph
