#include "workloads/onnx/gradients.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "framework/autograd/functional.h"
#include "framework/core/attributes.h"
#include "workloads/onnx/gradient_path.h"

namespace diptych::workloads {
namespace {

void check_cotangents(const std::vector<Tensor>& outputs, std::span<const Tensor> cotangents) {
  if (outputs.size() != cotangents.size()) {
    throw FileError(fmt::format("{} outputs, {} cotangents", outputs.size(), cotangents.size()));
  }
  bool any = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool counts = is_floating(outputs[i].dtype());
    if (counts && outputs[i].type() != cotangents[i].type()) {
      throw FileError(fmt::format("output {} is {}, its cotangent {}", i, to_string(outputs[i].type()),
                                  to_string(cotangents[i].type())));
    }
    any = any || counts;
  }
  if (!any) {
    throw FileError("the model has no floating-point output");
  }
}

}  // namespace

TensorFunction gradient_function(std::shared_ptr<onnx::ImportedModel> model, std::size_t inputs,
                                 std::vector<std::size_t> places, bool with_outputs) {
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
      check_cotangents(outputs, of_outputs);
      std::vector<Tensor> floating;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (is_floating(outputs[i].dtype())) {
          floating.push_back(std::move(outputs[i]));
          cotangents.push_back(of_outputs[i]);
        }
      }
      return floating;
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
