// libtorch as an arm (docs/arms.md): the model's nodes one by one as at:: calls from C++, without gradients. Compared
// with PyTorch's arms it shows what Python costs; compared with eager, what an op's dispatch costs in either engine.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/core/InferenceMode.h>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <torch/version.h>
#include <vector>

#include "framework/core/tensor_body.h"
#include "framework/io/onnx/model.h"
#include "workloads/arms/server/arm_server.h"

namespace {

using diptych::onnx::Graph;
using diptych::onnx::Node;

const std::map<std::string, at::ScalarType> kTypes = {{"f32", at::kFloat}, {"f64", at::kDouble}, {"i32", at::kInt},
                                                      {"i64", at::kLong},  {"u8", at::kByte},    {"bool", at::kBool}};

std::string name_of(at::ScalarType type) {
  for (const auto& [name, value] : kTypes) {
    if (value == type) {
      return name;
    }
  }
  throw std::runtime_error(std::string("the protocol has no name for ") + at::toString(type));
}

at::Tensor tensor_of(const diptych::arms::Input& input) {
  at::Tensor tensor = at::empty(input.shape, kTypes.at(input.dtype));
  input.read_into(tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

diptych::arms::Output described(const at::Tensor& output) {
  auto dense = std::make_shared<at::Tensor>(output.contiguous());
  const void* const data = dense->data_ptr();
  return {name_of(dense->scalar_type()), dense->sizes().vec(), data, dense->nbytes(), std::move(dense)};
}

/// A node: maps its inputs to its one output.
using Call = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

class Attributes {
 public:
  explicit Attributes(const Node& node) : node_(node) {}
  template <typename T>
  T get(const std::string& name, T absent) const {
    const auto found = node_.attributes.find(name);
    return found == node_.attributes.end() ? absent : std::get<T>(found->second);
  }

 private:
  const Node& node_;
};

using Integers = std::vector<std::int64_t>;
using Operands = const std::vector<at::Tensor>&;

Call unary(at::Tensor (*function)(const at::Tensor&)) {
  return [function](Operands x) { return function(x[0]); };
}

Call binary(at::Tensor (*function)(const at::Tensor&, const at::Tensor&)) {
  return [function](Operands x) { return function(x[0], x[1]); };
}

Integers integers_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kLong).contiguous();
  return {dense.data_ptr<std::int64_t>(), dense.data_ptr<std::int64_t>() + dense.numel()};
}

/// `constants` holds the inputs that are known; the others are undefined. Null if the node is not supported here.
Call call_of(const Node& node, Operands constants) {
  static const std::map<std::string, Call> plain = {
      {"Abs", unary(at::abs)},
      {"Add", [](Operands x) { return at::add(x[0], x[1]); }},
      {"Div", [](Operands x) { return x[0].is_floating_point() ? at::div(x[0], x[1]) : at::div(x[0], x[1], "trunc"); }},
      {"Erf", unary(at::erf)},
      {"Exp", unary(at::exp)},
      {"Identity", [](Operands x) { return x[0]; }},
      {"Log", unary(at::log)},
      {"MatMul", binary(at::matmul)},
      {"Max", binary(at::maximum)},
      {"Min", binary(at::minimum)},
      {"Mul", [](Operands x) { return at::mul(x[0], x[1]); }},
      {"Neg", unary(at::neg)},
      {"Pow", [](Operands x) { return at::pow(x[0], x[1]); }},
      {"Reciprocal", unary(at::reciprocal)},
      {"Relu", unary(at::relu)},
      {"Sigmoid", unary(at::sigmoid)},
      {"Sqrt", unary(at::sqrt)},
      {"Sub", [](Operands x) { return at::sub(x[0], x[1]); }},
      {"Tanh", unary(at::tanh)},
      {"Where", [](Operands x) { return at::where(x[0], x[1], x[2]); }},
  };
  if (const auto found = plain.find(node.op); found != plain.end()) {
    const bool is_variadic = node.op == "Max" || node.op == "Min";
    return is_variadic && node.inputs.size() != 2 ? nullptr : found->second;
  }
  const Attributes attributes(node);
  if (node.op == "Softmax") {
    return [axis = attributes.get("axis", std::int64_t{-1})](Operands x) { return at::softmax(x[0], axis); };
  }
  if (node.op == "Transpose" && node.attributes.contains("perm")) {
    return [order = attributes.get("perm", Integers{})](Operands x) { return x[0].permute(order); };
  }
  if (node.op == "Reshape" && constants[1].defined()) {
    const Integers lengths = integers_of(constants[1]);
    if (std::find(lengths.begin(), lengths.end(), 0) == lengths.end()) {
      return [lengths](Operands x) { return x[0].reshape(lengths); };
    }
  }
  if (node.op == "Flatten" && attributes.get("axis", std::int64_t{1}) == 1) {
    return [](Operands x) { return x[0].flatten(1); };
  }
  if (node.op == "Gemm" && attributes.get("alpha", 1.0) == 1 && attributes.get("beta", 1.0) == 1 &&
      attributes.get("transA", std::int64_t{0}) == 0) {
    const bool transposed = attributes.get("transB", std::int64_t{0}) != 0;
    return [transposed](Operands x) {
      const at::Tensor weight = transposed ? x[1].t() : x[1];
      return x.size() > 2 ? at::addmm(x[2], x[0], weight) : at::mm(x[0], weight);
    };
  }
  if (node.op == "LayerNormalization" && constants[1].defined()) {
    return [epsilon = attributes.get("epsilon", 1e-5)](Operands x) {
      return at::layer_norm(x[0], x[1].sizes(), x[1], x.size() > 2 ? x[2] : at::Tensor(), epsilon);
    };
  }
  if (node.op == "Concat") {
    return [axis = attributes.get("axis", std::int64_t{0})](Operands x) { return at::cat(x, axis); };
  }
  return nullptr;
}

class Model final : public diptych::arms::Model {
 public:
  Model(const std::string& path, std::vector<at::Tensor> inputs) {
    const diptych::onnx::Model model = diptych::onnx::read_model(path);
    if (const std::int64_t opset = model.opsets.at(""); opset < 13) {  // Softmax is defined differently there
      throw std::runtime_error("opset " + std::to_string(opset) + "; this arm reads 13 and newer");
    }
    const Graph& graph = *model.graph;
    for (const auto& [name, initializer] : graph.initializers) {
      set(name, copied(initializer.tensor));
    }
    std::size_t next = 0;
    for (const auto& input : graph.inputs) {
      if (!graph.initializers.contains(input.name)) {
        set(input.name, inputs.at(next++));
      }
    }
    std::map<std::string, bool> missing;
    for (const Node& node : graph.nodes) {
      if (node.op == "Constant" && node.attributes.contains("value")) {
        set(node.outputs[0], copied(std::get<diptych::Tensor>(node.attributes.at("value"))));
        continue;
      }
      Step step;
      std::vector<at::Tensor> constants;
      for (const std::string& name : node.inputs) {
        const std::size_t number = number_of(name);
        step.inputs.push_back(number);
        constants.push_back(values_[number]);
      }
      step.output = number_of(node.outputs[0]);
      step.call = node.outputs.size() == 1 ? call_of(node, constants) : nullptr;
      missing[node.op] |= step.call == nullptr;
      steps_.push_back(std::move(step));
    }
    std::string names;
    for (const auto& [op, lacks] : missing) {
      names += lacks ? (names.empty() ? "" : ", ") + op : "";
    }
    if (!names.empty()) {
      throw std::runtime_error("no libtorch form here of " + names);
    }
    for (const auto& output : graph.outputs) {
      outputs_.push_back(number_of(output.name));
    }
    find_last_uses();
  }

  void run() override { call(); }

  std::vector<diptych::arms::Output> results() override {
    std::vector<diptych::arms::Output> results;
    for (const at::Tensor& output : call()) {
      results.push_back(described(output));
    }
    return results;
  }

 private:
  std::vector<at::Tensor> call() {
    std::vector<at::Tensor> arguments;
    for (const Step& step : steps_) {
      arguments.clear();
      for (const std::size_t number : step.inputs) {
        arguments.push_back(values_[number]);
      }
      values_[step.output] = step.call(arguments);
      for (const std::size_t number : step.last_use) {  // as a local variable of a function would be freed
        values_[number] = at::Tensor();
      }
    }
    std::vector<at::Tensor> results;
    for (const std::size_t number : outputs_) {
      results.push_back(values_[number]);
    }
    for (const std::size_t number : made_) {
      values_[number] = at::Tensor();
    }
    return results;
  }

  struct Step {
    Call call;
    std::vector<std::size_t> inputs;
    std::size_t output = 0;
    std::vector<std::size_t> last_use;  ///< values of earlier steps that no later one reads
  };

  void find_last_uses() {
    std::set<std::size_t> kept(outputs_.begin(), outputs_.end());
    for (const Step& step : steps_) {
      made_.insert(step.output);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      for (const std::size_t number : step->inputs) {
        if (made_.contains(number) && kept.insert(number).second) {
          step->last_use.push_back(number);
        }
      }
    }
  }

  static at::Tensor copied(const diptych::Tensor& tensor) {
    if (!tensor.defined()) {
      throw std::runtime_error("a constant is of a type that it doesn't have");
    }
    at::Tensor copy = at::empty(at::IntArrayRef(tensor.shape().begin(), tensor.shape().end()),
                                kTypes.at(std::string(diptych::name_of(tensor.dtype()))));
    std::memcpy(copy.data_ptr(), tensor.body()->data, copy.nbytes());  // tensors from a file are dense
    return copy;
  }

  std::size_t number_of(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, values_.size());
    if (is_new) {
      values_.emplace_back();
    }
    return entry->second;
  }
  void set(const std::string& name, at::Tensor value) { values_[number_of(name)] = std::move(value); }

  std::map<std::string, std::size_t> numbers_;
  std::vector<at::Tensor> values_;
  std::vector<Step> steps_;
  std::vector<std::size_t> outputs_;
  std::set<std::size_t> made_;  ///< values computed by steps
};

diptych::arms::Loaded load(const diptych::arms::Load& wanted) {
  std::vector<at::Tensor> inputs;
  std::transform(wanted.inputs.begin(), wanted.inputs.end(), std::back_inserter(inputs), tensor_of);
  const auto start = std::chrono::steady_clock::now();
  auto model = std::make_unique<Model>(wanted.model, std::move(inputs));
  return {std::move(model), diptych::arms::seconds_since(start)};
}

}  // namespace

int main() {
  at::set_num_threads(diptych::arms::wanted_threads());
  const c10::InferenceMode without_gradients;
  return diptych::arms::serve(
      {.name = std::string("libtorch ") + TORCH_VERSION, .threads = at::get_num_threads(), .load = load});
}
