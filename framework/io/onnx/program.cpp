#include "framework/io/onnx/program.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "framework/capture/capture.h"
#include "framework/core/attributes.h"
#include "framework/core/context.h"
#include "framework/io/onnx/storage_types.h"

namespace diptych::onnx {
namespace {

/// The number of steps that one call may run, with loops unrolled: a file of a few bytes can ask for years. They are
/// captured when a call is planned, at a few hundred bytes each.
constexpr std::int64_t kMostSteps = 500'000;
thread_local std::int64_t steps_run = 0;
thread_local int depth = 0;

void count_step(const std::string& what) {
  if (++steps_run > kMostSteps) {
    throw Unsupported(fmt::format("{}: a call would run more than {} nodes, loops unrolled", what, kMostSteps));
  }
}

class Depth {
 public:
  Depth() {
    if (depth++ == 0) {
      steps_run = 0;
    }
  }
  ~Depth() { --depth; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
};

std::string describe(const Node& node, std::size_t index, const Model& model) {
  const std::string name = node.name.empty() ? fmt::format("{}", index) : quote(node.name);
  const std::string op = node.domain.empty() ? node.op : node.domain + "::" + node.op;
  const auto opset = model.opsets.find(node.domain);
  const std::string version =
      opset == model.opsets.end() ? "of which the model names no opset" : fmt::format("opset {}", opset->second);
  return fmt::format("node {} ({}, {})", name, quote(op).substr(1, quote(op).size() - 2), version);
}

/// A few of the problems, for one message.
std::string told(const std::vector<std::string>& problems) {
  constexpr std::size_t kMostTold = 8;
  std::string text = problems.front();
  for (std::size_t i = 1; i < std::min(problems.size(), kMostTold); ++i) {
    text += "; " + problems[i];
  }
  return problems.size() > kMostTold ? fmt::format("{}; and {} more", text, problems.size() - kMostTold) : text;
}

class Compiler {
 public:
  Compiler(const Graph& graph, const Model& model, const std::set<std::string>& around)
      : graph_(graph), model_(model), around_(around) {}

  GraphProgram run() {
    for (const auto& [name, initializer] : graph_.initializers) {
      const int number = add(name);
      if (initializer.tensor.defined()) {
        program_.constants.push_back({number, {initializer.tensor, true}});
      } else {
        foreign_[name] = initializer.foreign_type;
      }
    }
    for (const ValueInfo& input : graph_.inputs) {
      if (!graph_.initializers.contains(input.name)) {
        program_.inputs.push_back(add(input.name));
        if (!input.foreign_type.empty() && !input.is_list()) {
          foreign_[input.name] = input.foreign_type;
        }
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      try {
        add_step(graph_.nodes[i], i);
      } catch (const Unsupported& problem) {  // the remaining nodes are checked all the same
        problems_.emplace_back(problem.what());
        for (const std::string& output : graph_.nodes[i].outputs) {
          if (!output.empty() && !program_.numbers.contains(output)) {
            add(output);
          }
        }
      }
    }
    for (const ValueInfo& output : graph_.outputs) {
      if (const auto foreign = foreign_.find(output.name); foreign != foreign_.end()) {
        problems_.push_back(fmt::format("output {} is a {}: the engine has none", quote(output.name), foreign->second));
        continue;
      }
      program_.outputs.push_back(find(output.name, fmt::format("output {}", quote(output.name))));
    }
    if (!problems_.empty()) {
      throw Unsupported(told(problems_));
    }
    join_products();
    std::erase_if(program_.steps, [](const GraphProgram::Step& step) { return step.translation.run == nullptr; });
    find_last_uses();
    return std::move(program_);
  }

 private:
  int add(const std::string& name) {
    const auto [place, is_new] = program_.numbers.emplace(name, static_cast<int>(program_.numbers.size()));
    if (!is_new) {
      throw Error(fmt::format("the graph {} makes {} twice; names are made once: export it again", quote(graph_.name),
                              quote(name)));
    }
    return place->second;
  }

  /// Finds a value by name, capturing it from outside the graph if necessary.
  int find(const std::string& name, const std::string& what) {
    if (const auto known = program_.numbers.find(name); known != program_.numbers.end()) {
      return known->second;
    }
    if (around_.contains(name)) {
      program_.captured.push_back(name);
      return add(name);
    }
    throw Error(fmt::format("{} reads {}, which nothing before it makes; the file is damaged: export it again", what,
                            quote(name)));
  }

  void refuse_foreign(const std::string& name, const std::string& what) const {
    if (const auto foreign = foreign_.find(name); foreign != foreign_.end()) {
      throw Unsupported(fmt::format("{}: {} is a {}: the engine has none", what, quote(name), foreign->second));
    }
  }

  void add_step(const Node& node, std::size_t index) {
    const auto opset = model_.opsets.find(node.domain);
    const bool is_own = node.domain.empty() || node.domain == kTrainingDomain;
    const std::int64_t version = !is_own                        ? 0
                                 : node.opset != 0              ? node.opset
                                 : opset != model_.opsets.end() ? opset->second
                                                                : 0;
    GraphProgram::Step step;
    step.what = describe(node, index, model_);
    step.scope = node.name.empty() ? fmt::format("{}{}", node.op, index) : node.name;
    step.where = {"onnx", static_cast<std::uint32_t>(index)};
    if (node.outputs.empty()) {
      throw Error(step.what + " has no outputs; the file is damaged: export it again");
    }
    for (const std::string& input : node.inputs) {
      refuse_foreign(input, step.what);
      step.inputs.push_back(input.empty() ? -1 : find(input, step.what));
    }
    NodeView view(node, version, step.what, [this](const Graph& body) {
      std::set<std::string> visible = around_;
      for (const auto& [name, number] : program_.numbers) {
        visible.insert(name);
      }
      return std::make_shared<GraphProgram>(compile(body, model_, visible));
    });
    step.translation = translate(view, node, version);
    program_.draws = program_.draws || step.translation.draws;
    for (const std::string& name : view.captured()) {
      refuse_foreign(name, step.what);
      step.inputs.push_back(find(name, step.what));
    }
    for (const std::string& output : node.outputs) {
      step.outputs.push_back(output.empty() ? -1 : add(output));
    }
    program_.steps.push_back(std::move(step));
  }

  static bool is_plain(const Node& node, std::string_view op) {
    return node.op == op && node.domain.empty() && node.attributes.empty() && node.inputs.size() == 2 &&
           node.outputs.size() == 1;
  }

  bool is_bias(const std::string& name) const {
    const auto found = graph_.initializers.find(name);
    return found != graph_.initializers.end() && found->second.tensor.defined() && found->second.tensor.rank() == 1;
  }

  /// How often each value is read: by steps, by bodies in them, and by the caller.
  std::vector<int> count_reads() const {
    std::vector<int> reads(program_.numbers.size(), 0);
    for (const GraphProgram::Step& step : program_.steps) {
      for (const int input : step.inputs) {
        if (input >= 0) {
          ++reads[static_cast<std::size_t>(input)];
        }
      }
    }
    for (const int output : program_.outputs) {
      ++reads[static_cast<std::size_t>(output)];
    }
    return reads;
  }

  /// ONNX has no linear layer for more than two axes: exporters write a MatMul and an Add. What was one op becomes one
  /// again, under the name of the MatMul. Leaves empty steps.
  void join_products() {
    const std::vector<int> reads = count_reads();
    std::map<int, GraphProgram::Step*> products;  // by their only result, which is read once
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      GraphProgram::Step& step = program_.steps[i];
      if (is_plain(node, "MatMul") && step.outputs[0] >= 0 && reads[static_cast<std::size_t>(step.outputs[0])] == 1) {
        products[step.outputs[0]] = &step;
      } else if (is_plain(node, "Add")) {
        for (const std::size_t side : {0U, 1U}) {
          const auto product = products.find(step.inputs[side]);
          if (product != products.end() && is_bias(node.inputs[1 - side])) {
            GraphProgram::Step joined = std::exchange(*product->second, {});
            joined.inputs.push_back(step.inputs[1 - side]);
            joined.outputs = step.outputs;
            joined.translation = for_storage_types("Gemm", product_with_bias());
            step = std::move(joined);
            break;
          }
        }
      }
    }
  }

  static Translation translate(NodeView& view, const Node& node, std::int64_t version) {
    const std::string full_name = node.domain + "::" + node.op;
    if (!node.domain.empty() && node.domain != kTrainingDomain) {
      view.refuse("the importer knows ONNX's own operators alone; export without custom ones");
    }
    const Operator* op = find_operator(node.domain.empty() ? node.op : full_name);
    if (op == nullptr || node.op.find(':') != std::string::npos) {
      view.refuse("the engine has no such operator (`diptych onnx ops` lists those that it has)");
    }
    if (version < op->first) {
      view.refuse(fmt::format("supported from opset {} on; export with a later one", op->first));
    }
    if (version > op->last && op->last != kNewestOpset) {
      view.refuse(fmt::format("supported from opset {} to {}; export with one of these", op->first, op->last));
    }
    Translation translation = op->translate(view);
    view.check_all_read();
    return for_storage_types(node.op, std::move(translation));
  }

  void find_last_uses() {
    std::set<int> read(program_.outputs.begin(), program_.outputs.end());
    for (std::size_t i = program_.steps.size(); i-- > 0;) {
      GraphProgram::Step& step = program_.steps[i];
      for (const std::vector<int>* values : {&step.inputs, &step.outputs}) {
        for (const int value : *values) {
          if (value >= 0 && read.insert(value).second) {
            step.last_use.push_back(value);
          }
        }
      }
    }
  }

  const Graph& graph_;
  const Model& model_;
  const std::set<std::string>& around_;
  std::vector<std::string> problems_;
  GraphProgram program_;
  std::map<std::string, std::string> foreign_;  ///< values of types that the engine doesn't have
};

}  // namespace

GraphProgram compile(const Graph& graph, const Model& model, const std::set<std::string>& around) {
  return Compiler(graph, model, around).run();
}

Iteration::Iteration() : before_(steps_run) {}
Iteration::~Iteration() { steps_run = before_; }

void GraphProgram::run(const Step& step, std::vector<Value>& values, std::vector<Value>& arguments,
                       std::vector<Value>& results) const {
  arguments.clear();
  for (const int input : step.inputs) {
    arguments.push_back(input >= 0 ? values[static_cast<std::size_t>(input)] : Value());
  }
  if (!step.translation.takes_sequences) {
    for (const Value& argument : arguments) {
      if (argument.is_no_tensor()) {
        throw Unsupported(fmt::format("{}: one of its inputs is {}: the engine has it for tensors alone", step.what,
                                      argument.absent ? "an optional without an element" : "a sequence"));
      }
    }
  }
  results.assign(step.outputs.size(), Value());
  const graph::ModuleScope scope(step.scope);
  try {
    step.translation.run(arguments, results, step.where);
  } catch (const Unsupported& error) {
    throw Unsupported(fmt::format("{}: {}", step.what, error.what()));
  } catch (const DTypeError& error) {
    throw Unsupported(fmt::format("{}: the engine can't do it on these element types: {}", step.what, error.what()));
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("{}: {}", step.what, error.what()));
  } catch (const CaptureError& error) {
    throw CaptureError(fmt::format("{}: {}", step.what, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", step.what, error.what()));
  }
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] >= 0) {
      if (!results[i].tensor.defined()) {
        throw Unsupported(fmt::format("{}: the engine doesn't give its output {}", step.what, i));
      }
      values[static_cast<std::size_t>(step.outputs[i])] = std::move(results[i]);
    }
  }
}

namespace {

/// Refuses results that exceed the machine's memory while they are only types.
void check_size(const GraphProgram::Step& step, const Tensor& tensor) {
  try {
    checked_shape(std::span(tensor.shape().begin(), tensor.shape().end()), tensor.dtype());
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("{}: {}", step.what, error.what()));
  }
}

/// The bytes alive while a call is planned, which are also those of the call: values of this run of a graph, and of the
/// enclosing runs on this thread. A view counts as a copy. Weights don't count, because they are already in memory.
class LiveBytes {
 public:
  explicit LiveBytes(std::size_t values) : bytes_(values, 0) {}
  ~LiveBytes() { total_ -= own_; }
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  void add(const GraphProgram::Step& step, int value, const Tensor& tensor) {
    drop(value);
    const double bytes = static_cast<double>(tensor.numel()) * static_cast<double>(size_of(tensor.dtype()));
    bytes_[static_cast<std::size_t>(value)] = bytes;
    own_ += bytes;
    total_ += bytes;
    constexpr double kShare = 0.75;  // the rest is left to other work of the machine
    if (total_ > kShare * memory_limit()) {
      throw ShapeError(fmt::format("{}: a call would need {:.3g} bytes at one time; the machine has {:.3g}", step.what,
                                   total_, memory_limit()));
    }
  }
  void drop(int value) {
    const double bytes = std::exchange(bytes_[static_cast<std::size_t>(value)], 0);
    own_ -= bytes;
    total_ -= bytes;
  }

 private:
  static thread_local double total_;
  double own_ = 0;
  std::vector<double> bytes_;
};
thread_local double LiveBytes::total_ = 0;

}  // namespace

std::vector<std::uint32_t> GraphProgram::interpret(std::vector<Value>& values) const {
  const Depth guard;
  LiveBytes live(values.size());
  count_step("a body");  // a body without nodes can be repeated as often
  std::vector<std::uint32_t> chosen;
  std::vector<Value> arguments;
  std::vector<Value> results;
  const auto known = [&](int value) { return value < 0 || values[static_cast<std::size_t>(value)].known; };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    count_step(step.what);
    for (const int input : step.translation.host_inputs) {
      const auto at = static_cast<std::size_t>(input);
      if (at < step.inputs.size() && !known(step.inputs[at])) {
        throw Unsupported(fmt::format(
            "{}: its input {} has to be a constant, or follow from constants and shapes: what comes from the model's "
            "inputs is known only while it runs",
            step.what, input));
      }
    }
    const bool fold = step.translation.by_type ||
                      (!step.translation.draws && std::all_of(step.inputs.begin(), step.inputs.end(), known));
    const bool follows_drawn =
        !step.translation.by_type && std::any_of(step.inputs.begin(), step.inputs.end(), [&](int input) {
          return input >= 0 && values[static_cast<std::size_t>(input)].drawn;
        });
    if (fold) {
      const EagerScope eager;
      const NoGrad guard_gradients;
      run(step, values, arguments, results);
    } else {
      run(step, values, arguments, results);
    }
    bool all_known = true;
    for (const int output : step.outputs) {
      if (output >= 0) {
        Value& value = values[static_cast<std::size_t>(output)];
        check_size(step, value.tensor);
        live.add(step, output, value.tensor);
        value.known = fold || (step.translation.sets_known && value.known);
        value.drawn = value.drawn || follows_drawn;
        all_known = all_known && value.known;
      }
    }
    if (!all_known) {
      chosen.push_back(static_cast<std::uint32_t>(i));
    }
    for (const int value : step.last_use) {
      if (!values[static_cast<std::size_t>(value)].known) {
        values[static_cast<std::size_t>(value)].clear();
        live.drop(value);
      }
    }
  }
  return chosen;
}

void GraphProgram::repeat(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const {
  const Depth guard;
  std::vector<Value> arguments;
  std::vector<Value> results;
  for (const std::uint32_t index : chosen) {
    const Step& step = steps[index];
    run(step, values, arguments, results);
    for (const int value : step.last_use) {
      if (!values[static_cast<std::size_t>(value)].known) {
        values[static_cast<std::size_t>(value)].clear();
      }
    }
  }
}

std::set<int> GraphProgram::sources_of(std::set<int> values) const {
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Step& step = steps[i];
    if (!step.translation.by_type && std::any_of(step.outputs.begin(), step.outputs.end(),
                                                 [&](int output) { return output >= 0 && values.contains(output); })) {
      values.insert(step.inputs.begin(), step.inputs.end());
    }
  }
  return values;
}

void GraphProgram::drop_unread(std::span<const std::uint32_t> chosen, std::vector<Value>& values) const {
  std::vector<bool> read(values.size(), false);
  for (const int output : outputs) {
    read[static_cast<std::size_t>(output)] = true;
  }
  for (const std::uint32_t index : chosen) {
    for (const int input : steps[index].inputs) {
      if (input >= 0) {
        read[static_cast<std::size_t>(input)] = true;
      }
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!read[i]) {
      values[i].clear();
    }
  }
}

void GraphProgram::name_values(const std::vector<Value>& values) const {
  graph::Capture* const capture = graph::active_capture();
  if (capture == nullptr) {
    return;
  }
  for (const auto& [name, number] : numbers) {
    const Tensor& tensor = values[static_cast<std::size_t>(number)].tensor;
    if (tensor.defined()) {
      capture->name(tensor, name);
    }
  }
}

std::vector<Value> GraphProgram::call(std::span<const Value> arguments) const {
  if (arguments.size() != inputs.size() + captured.size()) {
    throw Error(fmt::format("a body takes {} values, got {}", inputs.size() + captured.size(), arguments.size()));
  }
  std::vector<Value> values(numbers.size());
  for (const auto& [number, value] : constants) {
    values[static_cast<std::size_t>(number)] = value;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(inputs[i])] = arguments[i];
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    values[static_cast<std::size_t>(numbers.at(captured[i]))] = arguments[inputs.size() + i];
  }
  name_values(values);
  interpret(values);
  std::vector<Value> results;
  for (const int output : outputs) {
    results.push_back(values[static_cast<std::size_t>(output)]);
  }
  return results;
}

}  // namespace diptych::onnx
