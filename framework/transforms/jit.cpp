#include "framework/transforms/jit.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/guarded.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/tape.h"
#include "framework/runtime/placed_parts.h"
#include "framework/transforms/jit_cache.h"

namespace diptych::graph {
namespace {

class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What a concat joins without an instruction isn't refused a kernel.
void drop_placed(std::span<passes::PassRecord> records, const Graph& graph, std::span<const ValueId> computed) {
  const std::vector<const Node*> placed = runtime::placed_concats(graph, computed);
  const auto is_placed = [&](const passes::FusionRefusal& refusal) {
    return !refusal.in_region && std::any_of(placed.begin(), placed.end(),
                                             [&](const Node* node) { return node->output() == refusal.consumer; });
  };
  for (passes::PassRecord& record : records) {
    std::erase_if(record.refusals, is_placed);
  }
}

constexpr trace::Label kCapture{"capture", trace::Category::graph};
constexpr trace::Label kPasses{"passes", trace::Category::graph};
constexpr trace::Label kLower{"lower", trace::Category::graph};
constexpr trace::Label kReplay{"replay", trace::Category::graph};

}  // namespace

struct JitFunction::State {
  Function function;
  JitOptions options;
  std::shared_ptr<JitCache> cache;
  std::shared_ptr<GradientSets> gradient_sets = std::make_shared<GradientSets>();

  State(Function own, JitOptions chosen, std::shared_ptr<JitCache> shared)
      : function(std::move(own)), options(std::move(chosen)), cache(std::move(shared)) {}
  ~State() { cache->forget(this); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Entry& find_or_compile(std::span<const Tensor> arguments, Location where);
  /// Cuts the calls whose gradients by these inputs are wanted.
  Entry::Cuts::iterator make_cut(Entry& entry, const std::vector<bool>& wanted, const GradientSets::Expected& expected,
                                 std::span<const TensorType> results, Location where);
  /// A call that is recorded on the tape.
  std::vector<Tensor> call_with_gradient(Entry& entry, std::span<const Tensor> arguments, Location where);
};

JitFunction::JitFunction(Function function, JitOptions options, std::shared_ptr<JitCache> cache) {
  if (cache == nullptr) {
    cache = make_jit_cache(options.capacity);
  }
  state_ = std::make_unique<State>(std::move(function), std::move(options), std::move(cache));
}
JitFunction::~JitFunction() = default;
JitFunction::JitFunction(JitFunction&&) noexcept = default;
JitFunction& JitFunction::operator=(JitFunction&&) noexcept = default;

JitTable::JitTable(JitOptions options)
    : options_(std::move(options)),
      turns_(std::make_shared<CallLock>()),
      cache_(make_jit_cache(options_.capacity, turns_)) {}

JitFunction* JitTable::find(const std::vector<std::size_t>& lengths) {
  const auto found = by_structure_.find(lengths);
  if (found == by_structure_.end()) {
    return nullptr;
  }
  return last_ = &found->second;
}

JitFunction* JitTable::add(const std::vector<std::size_t>& lengths, JitFunction::Function&& function) {
  std::erase_if(by_structure_, [](const auto& known) { return known.second.is_empty(); });
  last_ = nullptr;
  return last_ = &by_structure_.try_emplace(lengths, std::move(function), options_, cache_).first->second;
}

JitFunction::Result JitTable::call(JitFunction& function, std::span<const Tensor> arguments) const {
  return function.call(arguments, options_.where);
}

JitFunction::Entry& JitFunction::State::find_or_compile(std::span<const Tensor> arguments, Location where) {
  if (Entry* const found = cache->find(this, arguments)) {
    return *found;
  }
  Compilation line{.cause = cache->cause_of(this, arguments), .where = where};
  Entry entry;
  entry.owner = this;
  entry.hash = hash_of(this, arguments);
  Stopwatch watch;
  {
    const trace::Zone zone(&kCapture);
    Capture capture(options.name);
    std::vector<Tensor> traced;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      entry.types.push_back(arguments[i].type());
      entry.strides.push_back(arguments[i].strides());
      traced.push_back(capture.argument(arguments[i].type(), fmt::format("argument{}", i), &entry.strides.back()));
    }
    const CaptureScope scope(capture);
    const Guards::Recorder recorder(entry.guards);
    entry.graph = capture.finish(function(traced, entry.structure), where);
  }
  line.arguments = entry.types;
  line.capture_seconds = watch.lap();
  line.captured_nodes = count_nodes(entry.graph);
  entry.effects = count_effects(entry.graph);
  if (!entry.graph.updates.empty()) {
    entry.with_updates = entry.graph;
  }
  {
    const trace::Zone zone(&kPasses);
    line.passes = passes::run_pipeline(entry.graph, options.pipeline);
  }
  line.passes_seconds = watch.lap();
  line.nodes = count_nodes(entry.graph);
  {
    const trace::Zone zone(&kLower);
    entry.executable = make_executable(entry.graph, entry.strides, options.pipeline);
  }
  line.lower_seconds = watch.lap();
  entry.captured = captured_of(entry.graph);
  drop_placed(line.passes, entry.graph, entry.executable->values());
  for (const Input& input : entry.graph.inputs) {
    if (input.kind == InputKind::state) {
      entry.states.push_back(input.variable);
    }
  }
  return cache->add(std::move(entry), std::move(line));
}

JitFunction::Entry::Cuts::iterator JitFunction::State::make_cut(Entry& entry, const std::vector<bool>& wanted,
                                                                const GradientSets::Expected& expected,
                                                                std::span<const TensorType> results, Location where) {
  Entry::Cut made{.sets = expected.sets};
  GradientCompilation line{.wanted = wanted, .uncut = {}};
  Stopwatch watch;
  try {
    made.call = cut_call(
        {function, options, entry.types, entry.strides, entry.states, entry.with_updates, entry.effects, results},
        expected, made.guards, line, where);
  } catch (const Error& error) {
    // Its gradient can't be captured: whoever asks for it is told so, but perhaps nobody does.
    line.uncut = error.what();
  }
  if (made.call == nullptr) {
    line.backwards.clear();
  }
  line.seconds = watch.lap();
  if (!entry.cuts.contains(wanted) && entry.cuts.size() >= std::max<std::size_t>(options.capacity, 1)) {
    entry.cuts.erase(entry.cuts.begin());
  }
  const auto known = entry.cuts.try_emplace(wanted).first;
  known->second = Entry::Cut();
  std::vector<GradientCompilation>& lines = cache->ledger[entry.ledger_line].gradients;
  entry.shorten(lines);
  lines.push_back(std::move(line));
  made.ledger_line = lines.size() - 1;
  known->second = std::move(made);
  return known;
}

std::vector<Tensor> JitFunction::State::call_with_gradient(Entry& entry, std::span<const Tensor> arguments,
                                                           Location where) {
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  for (const Variable& variable : entry.states) {  // held so that the run can't overwrite them
    inputs.push_back(variable.state()->value);
  }
  std::vector<TensorType> types;
  for (const ValueId output : entry.graph.outputs) {
    types.push_back(entry.graph.types[output]);
  }
  if (entry.gradient == nullptr) {
    entry.gradient =
        std::make_shared<CallGradient>(function, arguments.size(), entry.states, options, cache->turns, gradient_sets);
  }
  std::vector<bool> wanted;
  for (const Tensor& input : inputs) {
    wanted.push_back(input.requires_grad());
  }
  const GradientSets::Expected expected = gradient_sets->expected(types);
  auto known = entry.cuts.find(wanted);
  if (known == entry.cuts.end() || known->second.sets != expected.sets || !known->second.guards.hold()) {
    known = make_cut(entry, wanted, expected, types, where);
  }
  GradientCompilation& line = cache->ledger[entry.ledger_line].gradients[known->second.ledger_line];
  ++line.calls;
  const std::shared_ptr<SplitCall> split = known->second.call;
  std::vector<autograd::SavedTensor> kept(inputs.begin(), inputs.end());
  std::vector<Tensor> outputs;
  (split != nullptr ? *split->forward : *entry.executable).run(arguments, outputs);
  if (split != nullptr) {
    for (const std::size_t at : split->saved) {
      kept.emplace_back(outputs[at]);
    }
    outputs.resize(split->results);
  }
  const std::vector<Tensor>& captured = split != nullptr ? split->captured : entry.captured;
  for (const Tensor& tensor : captured) {
    kept.emplace_back(tensor);
  }
  autograd::record_custom(rule_of_call({entry.gradient, split, std::move(wanted), std::move(kept), inputs.size(),
                                        split != nullptr ? split->saved.size() : 0, line.use, std::move(types), where}),
                          inputs, outputs, where);
  return outputs;
}

JitFunction::Result JitFunction::call(std::span<const Tensor> arguments, Location where) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) {
      throw Error(fmt::format("{}: argument {} is undefined", state_->options.name, i), where,
                  "assign a value to it first");
    }
  }
  if (thread_context.inlines_graphs()) {
    Result result{{}, nullptr};
    std::shared_ptr<void> structure;
    result.outputs = state_->function(arguments, structure);
    return result;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_traced()) {
      throw CaptureError(
          fmt::format("{}: argument {} belongs to a graph whose capture has ended", state_->options.name, i), where,
          "return it from the captured function instead of keeping it");
    }
  }
  const CallLock::Scope turn(*state_->cache->turns);
  Entry& entry = state_->find_or_compile(arguments, where);
  ++state_->cache->ledger[entry.ledger_line].calls;

  if (thread_context.variable_reads != nullptr) {
    for (const Variable& variable : entry.states) {
      variable.value();  // so that the read is recorded
    }
  }
  bool differentiable = false;
  if (thread_context.grad_enabled) {
    const auto requires_grad = [](const auto& x) { return static_cast<bool>(x.body()->tape); };
    differentiable = std::any_of(arguments.begin(), arguments.end(), requires_grad) ||
                     std::any_of(entry.states.begin(), entry.states.end(),
                                 [&](const Variable& variable) { return requires_grad(variable.state()->value); });
  }
  Result result{{}, entry.structure};
  if (!differentiable) {
    const trace::Zone zone(&kReplay);
    entry.executable->run(arguments, result.outputs);
    return result;
  }
  result.outputs = state_->call_with_gradient(entry, arguments, where);
  return result;
}

const std::vector<Compilation>& JitFunction::ledger() const { return state_->cache->ledger; }
bool JitFunction::is_empty() const { return state_->cache->last_of(state_.get()) == nullptr; }
const Graph* JitFunction::graph() const {
  const Entry* const last = state_->cache->last_of(state_.get());
  return last == nullptr ? nullptr : &last->graph;
}
const runtime::Executable* JitFunction::executable() const {
  const Entry* const last = state_->cache->last_of(state_.get());
  return last == nullptr ? nullptr : last->executable.get();
}

}  // namespace diptych::graph
