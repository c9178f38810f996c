#include "workloads/onnx/gradients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "framework/autograd/functional.h"
#include "framework/core/attributes.h"
#include "workloads/onnx/gradient_path.h"

namespace diptych::workloads {
namespace {

/// The cotangents of the floating-point outputs, in their order.
std::vector<Tensor> of_floating(const std::vector<Tensor>& outputs, const std::vector<std::size_t>& numbers,
                                std::span<const Tensor> cotangents) {
  std::vector<Tensor> found;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(outputs[i].dtype())) {
      continue;
    }
    const auto at = std::find(numbers.begin(), numbers.end(), i);
    if (at == numbers.end()) {
      throw FileError(fmt::format("output {} is {} and has no cotangent: cotangent_{}.pb is missing", i,
                                  to_string(outputs[i].type()), i));
    }
    found.push_back(cotangents[static_cast<std::size_t>(at - numbers.begin())]);
    if (outputs[i].type() != found.back().type()) {
      throw FileError(fmt::format("output {} is {}, its cotangent {}", i, to_string(outputs[i].type()),
                                  to_string(found.back().type())));
    }
  }
  if (found.empty()) {
    throw FileError("the model has no floating-point output");
  }
  return found;
}

}  // namespace

TensorFunction gradient_function(std::shared_ptr<onnx::ImportedModel> model, std::size_t inputs,
                                 std::vector<std::size_t> places, std::vector<std::size_t> numbers, bool with_outputs) {
  return [=](std::span<const Tensor> all) {
    const std::vector<Tensor> given(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(inputs));
    std::vector<Tensor> by;
    for (const std::size_t place : places) {
      by.push_back(given[place]);
    }
    std::vector<Tensor> cotangents;
    const auto function = [&](const std::vector<Tensor>& watched) {
      std::vector<Tensor> now = given;
      for (std::size_t i = 0; i < places.size(); ++i) {
        now[places[i]] = watched[i];
      }
      const std::span<const Tensor> of_outputs = all.subspan(inputs);
      std::vector<Tensor> outputs = model->call(now);
      cotangents = of_floating(outputs, numbers, of_outputs);
      std::erase_if(outputs, [](const Tensor& output) { return !is_floating(output.dtype()); });
      return outputs;
    };
    auto [results, pullback] = vjp(function, by);
    if (!with_outputs) {
      results.clear();
    }
    const std::vector<Tensor> gradients = pullback(cotangents);
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
}

GradientsOf gradients_of(const onnx::Model& model) {
  const onnx::Graph& graph = *model.graph;
  const GradientSources sources(graph);
  GradientsOf found;
  std::string end;
  const auto take = [&](const std::string& name, std::vector<std::string>& names) {
    if (sources.contains(name)) {
      names.push_back(name);
    } else if (end.empty()) {
      end = end_of_gradient(graph, name);
    }
  };
  const std::vector<std::string> shapes = onnx::shape_inputs(model);
  for (const onnx::ValueInfo& input : onnx::inputs_of(graph)) {
    const bool is_shape = std::find(shapes.begin(), shapes.end(), input.name) != shapes.end();
    if (!is_shape && input.dtype && is_floating(*input.dtype)) {
      take(input.name, found.inputs);
    }
  }
  for (const std::string& name : onnx::weights(model)) {
    take(name, found.weights);
  }
  if (found.inputs.empty() && found.weights.empty()) {
    throw Error(fmt::format(
        "{} has nothing to take gradients by: {}", quote(model.path),
        end.empty() ? "no floating-point input or weight that its outputs depend on"
                    : "every way to its outputs leads through one like " + end + ", whose result has none"));
  }
  return found;
}

}  // namespace diptych::workloads
