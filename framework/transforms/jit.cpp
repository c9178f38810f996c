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
#include "framework/runtime/placed_parts.h"
#include "framework/transforms/cut_call.h"

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
      known.call = cut_call(
          {function, options, entry.types, entry.strides, entry.states, entry.with_updates, entry.effects, types},
          expected, known.guards, lines.back(), where);
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
