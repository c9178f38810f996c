// libtorch as an arm (docs/arms.md): the model's nodes one by one as at:: calls from C++, without gradients. Compared
// with PyTorch's arms it shows what Python costs; compared with eager, what an op's dispatch costs in either engine.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/core/tensor_body.h"
#include "framework/io/onnx/model.h"

namespace {

using diptych::onnx::Graph;
using diptych::onnx::Node;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

at::Tensor read_input(const json& described) {
  at::Tensor tensor = at::empty(described["shape"].get<std::vector<std::int64_t>>(), kTypes.at(described["dtype"]));
  std::ifstream file(described["file"].get<std::string>(), std::ios::binary);
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (!file) {
    throw std::runtime_error("an input's file is too short");
  }
  return tensor;
}

json write_output(const at::Tensor& output, const std::string& folder, std::size_t index) {
  const at::Tensor dense = output.contiguous();
  const std::string name = "output_" + std::to_string(index) + ".bin";
  std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
  file.write(static_cast<const char*>(dense.data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + name);
  }
  return {{"dtype", name_of(dense.scalar_type())}, {"shape", dense.sizes().vec()}, {"file", name}};
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

class Model {
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

  std::vector<at::Tensor> run() {
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

 private:
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

class Arm {
 public:
  json answer(const json& request) {
    const std::string what = request["do"];
    if (what == "describe") {
      return {{"protocol", 1},
              {"framework", std::string("libtorch ") + TORCH_VERSION},
              {"threads", at::get_num_threads()},
              {"overhead_nanoseconds", overhead()}};
    }
    if (what == "load") {
      std::vector<at::Tensor> inputs;
      for (const json& described : request["inputs"]) {
        inputs.push_back(read_input(described));
      }
      const auto start = Clock::now();
      model_ = std::make_unique<Model>(request["model"], std::move(inputs));
      return {{"load_seconds", seconds_since(start)}, {"compile_seconds", 0}};
    }
    if (what == "memory") {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return {{"peak_bytes", usage.ru_maxrss * 1024}};
    }
    if (!model_) {
      throw std::runtime_error("no model is loaded");
    }
    if (what == "check") {
      json outputs = json::array();
      for (const at::Tensor& output : model_->run()) {
        outputs.push_back(write_output(output, request["folder"], outputs.size()));
      }
      return {{"outputs", outputs}};
    }
    if (what == "warm_up" || what == "run") {
      return {{"nanoseconds", std::max(timed(request["count"], [this] { model_->run(); }), std::int64_t{1})}};
    }
    throw std::runtime_error("unknown request " + what);
  }

 private:
  template <typename Body>
  static std::int64_t timed(std::int64_t count, const Body& body) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      body();
    }
    return std::chrono::nanoseconds(Clock::now() - start).count();
  }

  static std::int64_t overhead() {
    std::int64_t least = timed(1, [] {});
    for (int i = 0; i < 100; ++i) {
      least = std::min(least, timed(1, [] {}));
    }
    return least;
  }

  std::unique_ptr<Model> model_;
};

}  // namespace

int main() {
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  at::set_num_threads(threads != nullptr ? std::max(std::atoi(threads), 1) : 1);
  const c10::InferenceMode without_gradients;
  Arm arm;
  for (std::string line; std::getline(std::cin, line);) {
    json reply;
    try {
      const json request = json::parse(line);
      if (request["do"] == "exit") {
        return 0;
      }
      reply = arm.answer(request);
    } catch (const std::exception& error) {  // reported to the other side, which ends only this arm
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
}
