#include "framework/transforms/jit.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/guarded.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/tape.h"
#include "framework/graph/rewriter.h"
#include "framework/kernels/gemm.h"
#include "framework/runtime/placed_parts.h"
#include "framework/transforms/call_gradient.h"
#include "framework/transforms/split_gradient.h"

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

std::size_t count_effects(const Graph& graph) {
  return static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), has_effect));
}

/// The captured tensors of a graph, each once.
std::vector<Tensor> captured_of(const Graph& graph) {
  std::vector<Tensor> captured;
  for (const Input& input : graph.inputs) {
    if (input.kind == InputKind::captured && std::none_of(captured.begin(), captured.end(), [&](const Tensor& known) {
          return known.body() == input.tensor.body();
        })) {
      captured.push_back(input.tensor);
    }
  }
  return captured;
}

/// Whether the graph computes something of its first `count` arguments, and of these captured tensors, or returns it.
std::vector<bool> reads_of(const Graph& graph, std::size_t count, std::span<const Tensor> captured) {
  const Users users(graph);
  std::vector<bool> reads(count + captured.size(), false);
  std::size_t argument = 0;
  for (const Input& input : graph.inputs) {
    const bool is_read = users.count(input.value) > 0 || users.is_result(input.value);
    if (input.kind == InputKind::argument && argument < count) {
      reads[argument++] = is_read;
    }
    for (std::size_t i = 0; i < captured.size() && input.kind == InputKind::captured; ++i) {
      reads[count + i] = reads[count + i] || (is_read && captured[i].body() == input.tensor.body());
    }
  }
  return reads;
}

/// "f32[2,3]", with the strides if they aren't dense.
std::string describe(const TensorType& type, const Strides& strides) {
  return is_contiguous(type.shape, strides) ? to_string(type)
                                            : fmt::format("{} strides {}", to_string(type), to_string(strides));
}

constexpr trace::Label kCapture{"capture", trace::Category::graph};
constexpr trace::Label kPasses{"passes", trace::Category::graph};
constexpr trace::Label kLower{"lower", trace::Category::graph};
constexpr trace::Label kReplay{"replay", trace::Category::graph};

}  // namespace

struct JitFunction::Entry {
  std::size_t hash = 0;  ///< of types and strides
  std::vector<TensorType> types;
  std::vector<Strides> strides;
  Guards guards;
  std::size_t ledger_line = 0;
  Graph graph;
  std::unique_ptr<runtime::Executable> executable;
  std::shared_ptr<void> structure;
  Variables states;
  Graph with_updates;                      ///< as captured, if it updates states
  std::size_t effects = 0;                 ///< nodes that have one, as captured
  std::vector<Tensor> captured;            ///< that the graph reads where they are
  std::shared_ptr<CallGradient> gradient;  ///< null before the first call that is recorded
  struct Cut {
    std::vector<ResultSet> sets = {};      ///< empty: it isn't made
    std::shared_ptr<SplitCall> call = {};  ///< null: it can't be cut
    Guards guards = {};                    ///< of what gradient rules read besides
    std::size_t ledger_line = 0;           ///< of Compilation::gradients
  };
  std::map<std::vector<bool>, Cut> cuts;  ///< by the inputs whose gradients are wanted

  bool matches(std::span<const Tensor> arguments) const {
    if (arguments.size() != types.size() || !guards.hold()) {
      return false;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const TensorBody& body = *arguments[i].body();
      if (body.type != types[i] || body.strides != strides[i]) {
        return false;
      }
    }
    return true;
  }
};

namespace {

/// The hash of the arguments' types and strides.
std::size_t hash_of(std::span<const Tensor> arguments) {
  std::size_t hash = arguments.size();
  for (const Tensor& argument : arguments) {
    const TensorBody& body = *argument.body();
    for (const std::size_t part :
         {detail::hash_field(body.type.dtype), detail::hash_field(body.type.shape), detail::hash_field(body.strides)}) {
      hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL;
    }
  }
  return hash;
}

}  // namespace

struct JitFunction::State {
  Function function;
  JitOptions options;
  std::shared_ptr<CallLock> turns;
  std::list<Entry> entries;  ///< most recently used first
  /// Keyed by hash. Entries with the same hash differ in their guards, or collide.
  std::unordered_multimap<std::size_t, std::list<Entry>::iterator> by_signature;
  std::vector<Compilation> ledger;
  std::shared_ptr<GradientSets> gradient_sets = std::make_shared<GradientSets>();

  /// The entry for these arguments, moved to the front; null if there is none. Compares two signatures, however many
  /// there are.
  Entry* find(std::span<const Tensor> arguments);
  Entry& find_or_compile(std::span<const Tensor> arguments, Location where);
  std::string cause_of(std::span<const Tensor> arguments) const;
  std::unique_ptr<runtime::Executable> make_executable(const Graph& graph, std::span<const Strides> strides) const;
  Graph joint_of(const Entry& entry, std::span<const TensorType> outputs, std::span<const ResultSet> sets,
                 Guards& guards, SplitCall& call, GradientCompilation& line, Location where) const;
  std::shared_ptr<SplitCall> cut(const Entry& entry, std::span<const TensorType> outputs,
                                 const GradientSets::Expected& expected, Guards& guards, GradientCompilation& line,
                                 Location where) const;
  /// A call that is recorded on the tape.
  std::vector<Tensor> call_with_gradient(Entry& entry, std::span<const Tensor> arguments, Location where);
};

JitFunction::JitFunction(Function function, JitOptions options, std::shared_ptr<CallLock> turns)
    : state_(std::make_unique<State>(State{std::move(function),
                                           std::move(options),
                                           turns != nullptr ? std::move(turns) : std::make_shared<CallLock>(),
                                           {},
                                           {}})) {}
JitFunction::~JitFunction() = default;
JitFunction::JitFunction(JitFunction&&) noexcept = default;
JitFunction& JitFunction::operator=(JitFunction&&) noexcept = default;

JitTable::JitTable(JitOptions options) : options_(std::move(options)), turns_(std::make_shared<CallLock>()) {}

JitFunction* JitTable::find(const std::vector<std::size_t>& lengths) {
  const auto found = by_structure_.find(lengths);
  if (found == by_structure_.end()) {
    return nullptr;
  }
  return last_ = &found->second;
}

JitFunction* JitTable::add(const std::vector<std::size_t>& lengths, JitFunction::Function&& function) {
  return last_ = &by_structure_.try_emplace(lengths, std::move(function), options_, turns_).first->second;
}

JitFunction::Result JitTable::call(JitFunction& function, std::span<const Tensor> arguments) const {
  return function.call(arguments, options_.where);
}

std::string JitFunction::State::cause_of(std::span<const Tensor> arguments) const {
  if (entries.empty()) {
    return ledger.empty() ? "first call" : "evicted";
  }
  const Entry& last = entries.front();
  if (arguments.size() != last.types.size()) {
    return fmt::format("{} arguments -> {}", last.types.size(), arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string before = describe(last.types[i], last.strides[i]);
    const std::string now = describe(arguments[i].type(), arguments[i].strides());
    if (before != now) {
      return fmt::format("argument {}: {} -> {}", i, before, now);
    }
  }
  const std::string change = last.guards.describe_change();
  return change.empty() ? "strides of axes of length 1" : change;
}

JitFunction::Entry* JitFunction::State::find(std::span<const Tensor> arguments) {
  const auto compared_with = [&](Entry& entry) {
    ++ledger[entry.ledger_line].comparisons;
    return entry.matches(arguments);
  };
  if (entries.empty()) {
    return nullptr;
  }
  if (compared_with(entries.front())) {  // the most frequent case: the same signature again and again
    return &entries.front();
  }
  const auto [begin, end] = by_signature.equal_range(hash_of(arguments));
  for (auto known = begin; known != end; ++known) {
    if (known->second != entries.begin() && compared_with(*known->second)) {
      entries.splice(entries.begin(), entries, known->second);
      return &entries.front();
    }
  }
  return nullptr;
}

JitFunction::Entry& JitFunction::State::find_or_compile(std::span<const Tensor> arguments, Location where) {
  if (Entry* const found = find(arguments)) {
    return *found;
  }
  Compilation line{.cause = cause_of(arguments), .where = where};
  Entry entry;
  entry.hash = hash_of(arguments);
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
    entry.executable = make_executable(entry.graph, entry.strides);
  }
  line.lower_seconds = watch.lap();
  entry.captured = captured_of(entry.graph);
  drop_placed(line.passes, entry.graph, entry.executable->values());
  for (const Input& input : entry.graph.inputs) {
    if (input.kind == InputKind::state) {
      entry.states.push_back(input.variable);
    }
  }
  entry.ledger_line = ledger.size();
  ledger.push_back(std::move(line));
  entries.push_front(std::move(entry));
  by_signature.emplace(entries.front().hash, entries.begin());
  if (entries.size() > std::max<std::size_t>(options.capacity, 1)) {  // the entry about to run stays
    const auto last = std::prev(entries.end());
    const auto [begin, end] = by_signature.equal_range(last->hash);
    by_signature.erase(std::find_if(begin, end, [&](const auto& known) { return known.second == last; }));
    entries.pop_back();
  }
  return entries.front();
}

std::unique_ptr<runtime::Executable> JitFunction::State::make_executable(const Graph& graph,
                                                                         std::span<const Strides> strides) const {
  const auto enabled = [&](const char* step) { return !options.pipeline.disabled.contains(step); };
  return std::make_unique<runtime::Executable>(
      graph, strides,
      runtime::ExecutableOptions{enabled(passes::kMemoryPlan), enabled(passes::kInPlace), enabled(passes::kPacking),
                                 enabled(passes::kSideBySide)});
}

/// Captures the function and, for each of the sets, its gradients by what `line` wants as one graph. `call` gets what
/// is known of its backward graphs. Its cotangents are those of all results that are in some set.
Graph JitFunction::State::joint_of(const Entry& entry, std::span<const TensorType> outputs,
                                   std::span<const ResultSet> sets, Guards& guards, SplitCall& call,
                                   GradientCompilation& line, Location where) const {
  const std::size_t argument_count = entry.types.size();
  Capture capture(options.name);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < argument_count; ++i) {
    inputs.push_back(capture.argument(entry.types[i], fmt::format("argument{}", i), &entry.strides[i]));
  }
  for (const Variable& state : entry.states) {
    inputs.push_back(capture.argument(state.type(), state.name()));
  }
  std::vector<Cotangents> cotangents;
  for (const ResultSet& set : sets) {
    cotangents.push_back({set, {}});
  }
  std::size_t number = inputs.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor cotangent;
    for (Cotangents& of : cotangents) {
      if (of.given[i]) {
        cotangent =
            cotangent.defined() ? cotangent : capture.argument(outputs[i], fmt::format("cotangent{}", number++));
        of.tensors.push_back(cotangent);
      }
    }
  }
  const CaptureScope scope(capture);
  const Guards::Recorder recorder(guards);
  std::vector<Tensor> results;
  const auto gradients =
      gradients_of(function, argument_count, entry.states, inputs, line.wanted, cotangents, &results);
  call = SplitCall();
  call.results = outputs.size();
  line.backwards.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    SplitCall::Backward& backward = call.backwards.emplace_back();
    backward.given = sets[i];
    for (const Tensor& gradient : gradients[i]) {
      backward.wanted.push_back(gradient.defined());
      if (gradient.defined()) {
        results.push_back(gradient);
      }
    }
    line.backwards.push_back({.given = sets[i], .passes = {}});
  }
  return capture.finish(results, where);
}

/// Captures the function and its gradients of the expected results by what `line` wants as one graph, and cuts it. Null
/// if that can't be done: `line` says why.
std::shared_ptr<SplitCall> JitFunction::State::cut(const Entry& entry, std::span<const TensorType> outputs,
                                                   const GradientSets::Expected& expected, Guards& guards,
                                                   GradientCompilation& line, Location where) const {
  if (kernels::active_gemm() == kernels::Gemm::openblas) {
    line.uncut = "OpenBLAS's bits follow strides, which a cut makes dense";
    return nullptr;
  }
  auto call = std::make_shared<SplitCall>();
  Graph joint = joint_of(entry, outputs, expected.sets, guards, *call, line, where);
  if (expected.sets.size() > 1 && count_effects(joint) > entry.effects) {  // each belongs to one gradient
    if (!expected.is_guess) {
      line.uncut = "gradients of several sets of results have effects";
      return nullptr;
    }
    joint = joint_of(entry, outputs, std::span(expected.sets).first(1), guards, *call, line, where);
  }
  const std::size_t argument_count = entry.types.size();
  const std::size_t input_count = argument_count + entry.states.size();
  passes::PipelineOptions before = options.pipeline;
  before.observe = nullptr;
  before.disabled.insert(passes::kFusingPasses.begin(), passes::kFusingPasses.end());
  line.joint = passes::run_pipeline(joint, before);
  // A state that isn't among the arguments is read by a gradient rule, when the gradient is computed and not before.
  const Users users(joint);
  const bool reads_late = std::any_of(joint.inputs.begin(), joint.inputs.end(), [&](const Input& input) {
    return input.kind == InputKind::state && (users.count(input.value) > 0 || users.is_result(input.value));
  });
  if (reads_late || !joint.updates.empty()) {
    line.uncut =
        reads_late ? "a gradient rule reads a state when the gradient is computed" : "a gradient rule updates a state";
    return nullptr;
  }
  SplitGradient split = split_gradient(joint, input_count, outputs.size());
  for (std::size_t i = 0; i < entry.states.size(); ++i) {
    Input& input = split.forward.inputs[argument_count + i];
    input.kind = InputKind::state;
    input.variable = entry.states[i];
  }
  if (!entry.with_updates.updates.empty() && !add_updates(entry.with_updates, split.forward)) {
    line.uncut = "a state that it updates needs an effect, which would happen twice";
    return nullptr;
  }
  passes::PipelineOptions after = options.pipeline;
  after.observe = nullptr;
  after.vetoed.clear();
  const std::size_t cotangents = input_count + split.forward.outputs.size() - outputs.size();
  const std::vector<ValueId> values = std::move(split.forward.outputs);
  split.forward.outputs.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(outputs.size()));
  for (std::size_t i = outputs.size(); i < values.size(); ++i) {
    const auto at = std::find(split.forward.outputs.begin(), split.forward.outputs.end(), values[i]);
    call->saved.push_back(static_cast<std::size_t>(at - split.forward.outputs.begin()));
    if (at == split.forward.outputs.end()) {
      split.forward.outputs.push_back(values[i]);
    }
  }
  call->captured = captured_of(joint);
  line.forward = passes::run_pipeline(split.forward, after);
  line.forward_nodes = count_nodes(split.forward);
  line.saved_bytes = split.saved_bytes;
  call->forward = make_executable(split.forward, entry.strides);
  std::size_t first = 0;
  for (std::size_t i = 0; i < call->backwards.size(); ++i) {
    SplitCall::Backward& backward = call->backwards[i];
    std::vector<bool> given;  // of the joint graph's cotangents
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (std::any_of(call->backwards.begin(), call->backwards.end(),
                      [&](const SplitCall::Backward& other) { return bool(other.given[k]); })) {
        given.push_back(backward.given[k]);
      }
    }
    const auto count = static_cast<std::size_t>(std::count(backward.wanted.begin(), backward.wanted.end(), true));
    Graph graph = call->backwards.size() == 1 ? std::move(split.backward)
                                              : part_of_backward(split.backward, first, count, cotangents, given);
    first += count;
    line.backwards[i].passes = passes::run_pipeline(graph, after);
    line.backwards[i].nodes = count_nodes(graph);
    backward.reads = reads_of(graph, cotangents, call->captured);
    std::vector<Strides> strides = entry.strides;
    for (std::size_t k = argument_count; k < graph.inputs.size(); ++k) {
      if (const Input& input = graph.inputs[k]; input.kind == InputKind::argument) {
        strides.push_back(contiguous_strides(graph.types[input.value].shape));
      }
    }
    backward.executable = make_executable(graph, strides);
  }
  return call;
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
        std::make_shared<CallGradient>(function, arguments.size(), entry.states, options, turns, gradient_sets);
  }
  std::vector<bool> wanted;
  for (const Tensor& input : inputs) {
    wanted.push_back(input.requires_grad());
  }
  const GradientSets::Expected expected = gradient_sets->expected(types);
  Entry::Cut& known = entry.cuts[wanted];
  if (known.sets != expected.sets || !known.guards.hold()) {
    std::vector<GradientCompilation>& lines = ledger[entry.ledger_line].gradients;
    known = Entry::Cut{.sets = expected.sets, .ledger_line = lines.size()};
    lines.push_back({.wanted = wanted, .uncut = {}});
    Stopwatch watch;
    try {
      known.call = cut(entry, types, expected, known.guards, lines.back(), where);
    } catch (const Error& error) {
      // Its gradient can't be captured: whoever asks for it is told so, but perhaps nobody does.
      lines.back().uncut = error.what();
    }
    if (known.call == nullptr) {
      lines.back().backwards.clear();
    }
    lines.back().seconds = watch.lap();
  }
  GradientCompilation& line = ledger[entry.ledger_line].gradients[known.ledger_line];
  ++line.calls;
  const std::shared_ptr<SplitCall> split = known.call;
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
  const CallLock::Scope turn(*state_->turns);
  Entry& entry = state_->find_or_compile(arguments, where);
  ++state_->ledger[entry.ledger_line].calls;

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

const std::vector<Compilation>& JitFunction::ledger() const { return state_->ledger; }
const Graph* JitFunction::graph() const { return state_->entries.empty() ? nullptr : &state_->entries.front().graph; }
const runtime::Executable* JitFunction::executable() const {
  return state_->entries.empty() ? nullptr : state_->entries.front().executable.get();
}

}  // namespace diptych::graph
