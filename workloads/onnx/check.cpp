#include "workloads/onnx/check.h"

#include <algorithm>
#include <cmath>
#include <new>

#include <fmt/format.h>

#include "framework/autograd/functional.h"
#include "framework/core/attributes.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/transforms/jit.h"
#include "workloads/onnx/gradient_path.h"
#include "workloads/onnx/gradients.h"
#include "workloads/onnx/workload.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;

struct DataSet {
  std::string name;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::map<std::string, onnx::TensorList> lists = {};  ///< the inputs whose tensors these are in part
};

/// prefix_0.pb, prefix_1.pb, ...; those of `infos` that are sequences or optionals are each of their tensors.
std::vector<Tensor> read_numbered(const fs::path& folder, const std::string& prefix,
                                  const std::vector<onnx::ValueInfo>& infos = {},
                                  std::map<std::string, onnx::TensorList>* lists = nullptr) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) {
      return tensors;
    }
    if (i >= infos.size() || !infos[i].is_list()) {
      tensors.push_back(onnx::read_tensor(path).tensor);
      continue;
    }
    onnx::TensorList list = infos[i].foreign_type == "sequence" ? onnx::read_sequence(path) : onnx::read_optional(path);
    tensors.insert(tensors.end(), list.tensors.begin(), list.tensors.end());
    if (lists != nullptr) {
      lists->emplace(infos[i].name, std::move(list));
    }
  }
}

std::vector<DataSet> read_data_sets(const fs::path& folder, const onnx::Graph& graph) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_")) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  std::vector<DataSet> sets;
  for (const fs::path& each : folders) {
    DataSet set{each.filename().string(), {}, read_numbered(each, "output", graph.outputs)};
    set.inputs = read_numbered(each, "input", onnx::inputs_of(graph), &set.lists);
    sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<Tensor> run(const TensorFunction& function, OnnxMode mode, std::span<const Tensor> inputs) {
  if (mode == OnnxMode::eager) {
    return function(inputs);
  }
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return function(arguments); },
      {.name = "model"});
  return compiled.call(inputs, Location::current()).outputs;
}

/// The outputs or gradients that a case computes, and the recorded ones.
struct Recorded {
  std::string name;  ///< for messages: "test_data_set_0"
  TensorFunction function;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<std::string> output_names;
  std::vector<bool> drawn = {};  ///< of each output, whether it depends on random numbers; empty: none does
  std::string warning = {};
};

/// Compares in each mode, and the later modes also with the bits of the first.
class Case {
 public:
  Case(std::string folder, const CheckOptions& options) : folder_(std::move(folder)), options_(options) {}

  std::vector<CaseResult> run(const std::function<std::vector<Recorded>()>& prepare) {
    std::vector<CaseResult> results;
    for (const OnnxMode mode : options_.modes) {
      results.push_back({folder_, mode});
      CaseResult& result = results.back();
      try {
        check(result, prepare());
      } catch (const onnx::Unsupported& error) {
        result.outcome = Outcome::unsupported;
        result.reason = error.what();
      } catch (const std::bad_alloc&) {
        result.outcome = Outcome::error;
        result.reason = "out of memory";
      } catch (const std::exception& error) {
        result.outcome = Outcome::error;
        result.reason = error.what();
      }
    }
    return results;
  }

 private:
  void check(CaseResult& result, const std::vector<Recorded>& sets) {
    if (sets.empty()) {
      throw FileError("there is no test_data_set_* in the folder");
    }
    const auto fail = [&result](std::string reason) {
      result.outcome = Outcome::fail;
      result.reason = std::move(reason);
    };
    std::string not_compared;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const Recorded& set = sets[s];
      result.warning = result.warning.empty() ? set.warning : result.warning;
      const std::vector<Tensor> outputs = workloads::run(set.function, result.mode, set.inputs);
      if (outputs.size() != set.outputs.size()) {
        return fail(fmt::format("{}: {} outputs, {} are recorded", set.name, outputs.size(), set.outputs.size()));
      }
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const bool is_drawn = i < set.drawn.size() && set.drawn[i];
        const Difference found = is_drawn && outputs[i].type() == set.outputs[i].type()
                                     ? Difference()
                                     : difference(outputs[i], set.outputs[i], options_.rtol, options_.atol);
        not_compared = is_drawn && not_compared.empty() ? set.output_names[i] : not_compared;
        result.largest_difference = std::max(result.largest_difference, found.largest);
        result.elementwise += found.elementwise;
        if (!found.reason.empty()) {
          return fail(fmt::format("{}: {}: {}", set.name, set.output_names[i], found.reason));
        }
        if (options_.elementwise && found.elementwise > 0) {
          return fail(fmt::format("{}: {}: {}: near enough for its tensor, not for itself", set.name,
                                  set.output_names[i], found.elementwise_reason));
        }
        if (options_.bitwise && s < first_.size() && !bitwise_equal(outputs[i], first_[s][i])) {
          return fail(fmt::format("{}: {} has not the bits of {}", set.name, set.output_names[i],
                                  name_of(options_.modes.front())));
        }
      }
      if (s >= first_.size()) {
        first_.push_back(outputs);
      }
    }
    result.outcome = Outcome::pass;
    if (!not_compared.empty()) {
      result.outcome = Outcome::unsupported;
      result.reason = fmt::format(
          "it ran, but {} depends on random numbers: those of another generator are others, so that only types were "
          "compared",
          not_compared);
    }
  }

  std::string folder_;
  const CheckOptions& options_;
  std::vector<std::vector<Tensor>> first_;  ///< the outputs of the first mode that produced any, by data set
};

std::shared_ptr<const onnx::Model> model_in(const fs::path& folder) {
  return std::make_shared<const onnx::Model>(onnx::read_model(folder / "model.onnx"));
}

/// The u16 tensor as the bf16 of the same bits.
Tensor restored_bfloat16(const Tensor& tensor) {
  Tensor restored = Tensor::empty(DType::bfloat16, tensor.shape());
  const std::uint16_t* const bits = tensor.data<std::uint16_t>();
  std::transform(bits, bits + tensor.numel(), restored.mutable_data<bfloat16>(), bfloat16::from_bits);
  return restored;
}

/// ONNX's own cases record bf16 as the u16 of the same bits, because NumPy has no such numbers. Outputs were cut off,
/// not rounded, and some inputs belong to other models: such cases say nothing.
void restore_bfloat16(DataSet& set, const onnx::Graph& graph) {
  if (!set.lists.empty() || set.outputs.size() != graph.outputs.size()) {
    return;  // what is recorded isn't one tensor for each
  }
  const auto is_hidden = [](const onnx::ValueInfo& info, const Tensor& tensor) {
    return info.dtype == DType::bfloat16 && tensor.dtype() == DType::uint16;
  };
  for (std::size_t i = 0; i < std::min(set.outputs.size(), graph.outputs.size()); ++i) {
    if (is_hidden(graph.outputs[i], set.outputs[i])) {
      throw onnx::Unsupported(fmt::format("output {} is bf16 recorded as u16: cut off, where the engine rounds", i));
    }
  }
  const std::vector<onnx::ValueInfo> infos = onnx::inputs_of(graph);
  bool is_any = false;
  for (std::size_t i = 0; i < std::min(set.inputs.size(), infos.size()); ++i) {
    if (is_hidden(infos[i], set.inputs[i])) {
      set.inputs[i] = restored_bfloat16(set.inputs[i]);
      is_any = true;
    }
  }
  for (std::size_t i = 0; is_any && i < std::min(set.inputs.size(), infos.size()); ++i) {
    if (infos[i].has_shape && infos[i].shape.size() != static_cast<std::size_t>(set.inputs[i].rank())) {
      throw onnx::Unsupported(fmt::format("a case of bf16 recorded for another model: its input {} is {}",
                                          quote(infos[i].name), to_string(set.inputs[i].type())));
    }
  }
}

std::vector<Recorded> forward(const fs::path& folder) {
  const std::shared_ptr<const onnx::Model> file = model_in(folder);
  onnx::check_supported(*file);  // what can't run is reported before the data is read
  std::vector<Recorded> result;
  for (DataSet& set : read_data_sets(folder, *file->graph)) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < set.outputs.size(); ++i) {
      names.push_back(fmt::format("output {}", i));
    }
    restore_bfloat16(set, *file->graph);
    const onnx::ImportOptions options = bind_shape_inputs(*file, set.inputs, set.lists);
    auto model = std::make_shared<onnx::ImportedModel>(file, options);
    std::vector<bool> drawn = model->drawn_outputs(set.inputs);
    result.push_back({std::move(set.name), [model](std::span<const Tensor> inputs) { return model->call(inputs); },
                      std::move(set.inputs), std::move(set.outputs), std::move(names), std::move(drawn)});
  }
  return result;
}

struct ExpectedGradients {
  std::vector<Tensor> cotangents;
  std::vector<std::size_t> numbers;  ///< of their outputs; an integer has none
  std::vector<onnx::NamedTensor> gradients;
};

ExpectedGradients read_gradients(const fs::path& folder, std::size_t outputs) {
  if (!fs::is_directory(folder)) {
    throw FileError("there is no folder grad beside the model");
  }
  ExpectedGradients result;
  for (std::size_t i = 0; i < outputs; ++i) {
    if (const fs::path path = folder / fmt::format("cotangent_{}.pb", i); fs::exists(path)) {
      result.cotangents.push_back(onnx::read_tensor(path).tensor);
      result.numbers.push_back(i);
    }
  }
  if (fs::exists(folder / fmt::format("cotangent_{}.pb", outputs))) {
    throw FileError(fmt::format("{} outputs, but a cotangent_{}.pb", outputs, outputs));
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".pb") && !name.starts_with("cotangent_")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    result.gradients.push_back(onnx::read_tensor(file));
  }
  if (result.gradients.empty()) {
    throw FileError("grad holds no expected gradient");
  }
  return result;
}

/// The positions of these tensors among the arguments with respect to which gradients are taken.
std::vector<std::size_t> places_of(const std::vector<onnx::NamedTensor>& gradients, const onnx::ImportedModel& model,
                                   const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const onnx::ValueInfo& input : model.inputs()) {
    names.push_back(input.name);
  }
  names.insert(names.end(), arguments.begin(), arguments.end());
  std::vector<std::size_t> places;
  for (const onnx::NamedTensor& gradient : gradients) {
    const auto found = std::find(names.begin(), names.end(), gradient.name);
    if (found == names.end()) {
      throw FileError(
          fmt::format("grad: {} is no input and no initializer that gradients can be taken by", quote(gradient.name)));
    }
    places.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return places;
}

std::vector<Recorded> backward(const fs::path& folder) {
  const std::shared_ptr<const onnx::Model> file = model_in(folder);
  const ExpectedGradients expected = read_gradients(folder / "grad", file->graph->outputs.size());
  std::vector<DataSet> data = read_data_sets(folder, *file->graph);
  if (data.empty()) {
    throw FileError("there is no test_data_set_* in the folder");
  }
  Recorded set;
  set.name = "grad";
  set.inputs = std::move(data.front().inputs);
  onnx::ImportOptions options = bind_shape_inputs(*file, set.inputs);
  for (const onnx::NamedTensor& gradient : expected.gradients) {
    if (const std::string end = end_of_gradient(*file->graph, gradient.name); !end.empty()) {
      set.warning += fmt::format(
          "{}the gradient by {} is zero, because every way to the outputs leads through one like {}, whose result has "
          "no slope",
          set.warning.empty() ? "" : "; ", quote(gradient.name), end);
    }
    if (file->graph->initializers.contains(gradient.name)) {
      options.arguments.push_back(gradient.name);
    }
    set.outputs.push_back(gradient.tensor);
    set.output_names.push_back(fmt::format("gradient by {}", quote(gradient.name)));
  }
  const auto model = std::make_shared<onnx::ImportedModel>(file, options);
  set.inputs.insert(set.inputs.end(), model->arguments().begin(), model->arguments().end());
  const std::vector<bool> drawn = model->drawn_outputs(set.inputs);
  if (std::find(drawn.begin(), drawn.end(), true) != drawn.end()) {
    throw onnx::Unsupported("its outputs depend on random numbers: those of another generator are others");
  }
  set.function = gradient_function(model, set.inputs.size(), places_of(expected.gradients, *model, options.arguments),
                                   expected.numbers);
  set.inputs.insert(set.inputs.end(), expected.cotangents.begin(), expected.cotangents.end());
  return {std::move(set)};
}

}  // namespace

const char* name_of(OnnxMode mode) { return mode == OnnxMode::eager ? "eager" : "graph"; }

const char* name_of(Outcome outcome) {
  constexpr std::array<const char*, 4> kNames{"PASS", "FAIL", "UNSUPPORTED", "ERROR"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::vector<CaseResult> check_case(const fs::path& folder, const CheckOptions& options) {
  return Case(folder.string(), options).run([&] { return forward(folder); });
}

std::vector<CaseResult> check_gradients(const fs::path& folder, const CheckOptions& options) {
  return Case(folder.string(), options).run([&] { return backward(folder); });
}

Difference difference(const Tensor& got, const Tensor& wanted, double rtol, double atol) {
  Difference result;
  if (got.type() != wanted.type()) {
    result.reason = fmt::format("{}, {} is recorded", to_string(got.type()), to_string(wanted.type()));
    return result;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> a = got.to_vector<double>();
  const std::vector<double> b = wanted.to_vector<double>();
  double largest = 0;
  for (const double value : b) {
    largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
  }
  const bool scales = is_floating(wanted.dtype());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      continue;
    }
    // A number is infinitely far from NaN and from an infinity.
    const double distance = std::isfinite(a[i]) && std::isfinite(b[i]) ? std::fabs(a[i] - b[i]) : kInfinity;
    result.largest = std::max(result.largest, distance);
    const auto is_beyond = [&](double magnitude) {
      return distance == kInfinity || distance > atol + rtol * magnitude;
    };
    const auto described = [&] { return fmt::format("element {} is {:.9g}, {:.9g} is recorded", i, a[i], b[i]); };
    if (result.reason.empty() && is_beyond(scales ? largest : std::fabs(b[i]))) {
      result.reason = described();
    }
    if (is_beyond(std::fabs(b[i])) && result.elementwise++ == 0) {
      result.elementwise_reason = described();
    }
  }
  return result;
}

}  // namespace diptych::workloads
