#include "framework/transforms/jit.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <unordered_map>

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/core/attributes.h"
#include "framework/core/guarded.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/tape.h"
#include "framework/ops/creation.h"

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
  std::shared_ptr<JitFunction> backward;

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
  std::list<Entry> entries;  ///< most recently used first
  /// Keyed by hash. Entries with the same hash differ in their guards, or collide.
  std::unordered_multimap<std::size_t, std::list<Entry>::iterator> by_signature;
  std::vector<Compilation> ledger;

  /// The entry for these arguments, moved to the front; null if there is none. Compares two signatures, however many
  /// there are.
  Entry* find(std::span<const Tensor> arguments);
  Entry& find_or_compile(std::span<const Tensor> arguments, Location where);
  std::string cause_of(std::span<const Tensor> arguments) const;
  void record_tape(Entry& entry, std::span<const Tensor> arguments, std::vector<Tensor>& outputs,
                   const std::vector<Tensor>& states, Location where);
};

namespace {

/// The gradient of a graph call is a separate graph, which recomputes the forward pass.
class GraphCallRule final : public autograd::CustomRule {
 public:
  GraphCallRule(std::shared_ptr<JitFunction> backward, std::vector<Tensor> inputs, std::vector<TensorType> outputs,
                Location where)
      : backward_(std::move(backward)), inputs_(std::move(inputs)), outputs_(std::move(outputs)), where_(where) {}

  std::vector<Tensor> vjp(std::span<const Tensor> cotangents) override {
    std::vector<Tensor> arguments = inputs_;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (is_floating(outputs_[i].dtype)) {
        arguments.push_back(cotangents[i].defined() ? cotangents[i]
                                                    : full(outputs_[i].shape, 0.0, outputs_[i].dtype, where_));
      }
    }
    std::vector<Tensor> flat = backward_->call(arguments, where_).outputs;
    std::vector<Tensor> gradients;
    std::size_t next = 0;
    for (const Tensor& input : inputs_) {
      gradients.push_back(is_floating(input.dtype()) ? flat[next++] : Tensor());
    }
    return gradients;
  }

 private:
  std::shared_ptr<JitFunction> backward_;
  std::vector<Tensor> inputs_;
  std::vector<TensorType> outputs_;
  Location where_;
};

}  // namespace

JitFunction::JitFunction(Function function, JitOptions options)
    : state_(std::make_unique<State>(State{std::move(function), std::move(options), {}, {}})) {}
JitFunction::~JitFunction() = default;
JitFunction::JitFunction(JitFunction&&) noexcept = default;
JitFunction& JitFunction::operator=(JitFunction&&) noexcept = default;

JitTable::JitTable(JitOptions options) : options_(std::move(options)) {}

JitFunction* JitTable::find(const std::vector<std::size_t>& lengths) {
  const auto found = by_structure_.find(lengths);
  if (found == by_structure_.end()) {
    return nullptr;
  }
  return last_ = &found->second;
}

JitFunction* JitTable::add(const std::vector<std::size_t>& lengths, JitFunction::Function&& function) {
  return last_ = &by_structure_.try_emplace(lengths, std::move(function), options_).first->second;
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
  {
    const trace::Zone zone(&kPasses);
    line.passes = passes::run_pipeline(entry.graph, options.pipeline);
  }
  line.passes_seconds = watch.lap();
  line.nodes = count_nodes(entry.graph);
  {
    const trace::Zone zone(&kLower);
    const auto enabled = [&](const char* step) { return !options.pipeline.disabled.contains(step); };
    entry.executable = std::make_unique<runtime::Executable>(
        entry.graph, entry.strides,
        runtime::ExecutableOptions{enabled(passes::kMemoryPlan), enabled(passes::kInPlace), enabled(passes::kPacking),
                                   enabled(passes::kSideBySide)});
  }
  line.lower_seconds = watch.lap();
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

void JitFunction::State::record_tape(Entry& entry, std::span<const Tensor> arguments, std::vector<Tensor>& outputs,
                                     const std::vector<Tensor>& states, Location where) {
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  inputs.insert(inputs.end(), states.begin(), states.end());
  if (entry.backward == nullptr) {
    const std::size_t argument_count = arguments.size();
    JitOptions backward_options = options;
    backward_options.name += ".backward";
    entry.backward = std::make_shared<JitFunction>(
        [forward = function, argument_count, variables = entry.states](std::span<const Tensor> tensors,
                                                                       std::shared_ptr<void>& /*structure*/) {
          const EnableGrad enable;  // captured from within a backward pass, which doesn't record
          const std::uint64_t entry_serial = autograd::next_serial();
          const std::size_t input_count = argument_count + variables.size();
          std::vector<Tensor> watched;
          std::vector<Tensor> targets;
          for (std::size_t i = 0; i < input_count; ++i) {
            watched.push_back(is_floating(tensors[i].dtype()) ? autograd::watch(tensors[i]) : tensors[i]);
            if (watched.back().requires_grad()) {
              targets.push_back(watched.back());
            }
          }
          std::vector<VariableRead> reads;
          for (std::size_t i = 0; i < variables.size(); ++i) {
            reads.push_back({variables[i], watched[argument_count + i]});
          }
          const Rebind rebind(reads);
          std::shared_ptr<void> ignored;
          std::vector<Tensor> results;
          for (const Tensor& result : forward(std::span(watched).first(argument_count), ignored)) {
            if (is_floating(result.dtype())) {
              results.push_back(result);
            }
          }
          return autograd::gradients(results, targets, tensors.subspan(input_count), {true, entry_serial},
                                     Location::current())
              .gradients;
        },
        std::move(backward_options));
  }
  std::vector<TensorType> types;
  for (const Tensor& output : outputs) {
    types.push_back(output.type());
  }
  autograd::record_custom(std::make_unique<GraphCallRule>(entry.backward, inputs, std::move(types), where), inputs,
                          outputs, where);
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
  Result result{{}, entry.structure.get()};
  if (!differentiable) {
    const trace::Zone zone(&kReplay);
    entry.executable->run(arguments, result.outputs);
    return result;
  }
  std::vector<Tensor> states;  // held so that the run can't overwrite them
  for (const Variable& variable : entry.states) {
    states.push_back(variable.state()->value);
  }
  entry.executable->run(arguments, result.outputs);
  state_->record_tape(entry, arguments, result.outputs, states, where);
  return result;
}

const std::vector<Compilation>& JitFunction::ledger() const { return state_->ledger; }
const Graph* JitFunction::graph() const { return state_->entries.empty() ? nullptr : &state_->entries.front().graph; }
const runtime::Executable* JitFunction::executable() const {
  return state_->entries.empty() ? nullptr : state_->entries.front().executable.get();
}

}  // namespace diptych::graph
