#include "framework/capture/region.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/autograd/forward.h"
#include "framework/capture/control_apply.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/dispatch/tape.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/view.h"

namespace diptych::graph {

RegionTrace::RegionTrace(std::string name, const RegionFunction& function, std::span<const TensorType> types,
                         Location where)
    : capture(Capture::of_region(std::move(name))) {
  for (const TensorType& type : types) {
    arguments.push_back(capture.argument(type, fmt::format("argument{}", arguments.size())));
  }
  extend([&] {
    results = function(arguments);
    for (const Tensor& result : results) {  // it may come from outside the region
      capture.use(result, where);
    }
  });
}

std::vector<ValueId> RegionTrace::argument_values(std::size_t first, std::size_t count) const {
  std::vector<ValueId> values;
  for (std::size_t i = first; i < first + count; ++i) {
    values.push_back(arguments[i].body()->trace_value);
  }
  return values;
}

Closure::Closure(std::span<RegionTrace* const> traces, const Variables& carried) {
  for (const RegionTrace* trace : traces) {
    for (const Tensor& tensor : trace->capture.closed_tensors()) {
      if (std::none_of(tensors_.begin(), tensors_.end(),
                       [&](const Tensor& known) { return known.body() == tensor.body(); })) {
        tensors_.push_back(tensor);
      }
    }
    for (const Variable& variable : trace->capture.used_variables()) {
      if (std::find(carried.begin(), carried.end(), variable) == carried.end() &&
          std::find(variables_.begin(), variables_.end(), variable) == variables_.end()) {
        variables_.push_back(variable);
      }
    }
  }
}

void Closure::append_values(RegionTrace& trace, std::vector<ValueId>& inputs) const {
  for (const Tensor& tensor : tensors_) {
    inputs.push_back(trace.capture.close_over(tensor));
  }
  for (const Variable& variable : variables_) {
    inputs.push_back(trace.capture.close_over(variable));
  }
}

void Closure::append_operands(std::vector<Tensor>& operands) const {
  operands.insert(operands.end(), tensors_.begin(), tensors_.end());
  for (const Variable& variable : variables_) {
    operands.push_back(variable.value());
  }
}

std::vector<Tensor> evaluate(const Graph& region, std::span<const Tensor> arguments) {
  std::vector<Tensor> values(region.types.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    values[region.inputs[i].value] = arguments[i];
  }
  for (const auto& [value, tensor] : region.constants) {
    values[value] = tensor;
  }
  std::vector<std::uint32_t> uses(region.types.size(), 0);  // so that a value is freed after its last use
  for (const Node& node : region.nodes) {
    for (ValueId input : node.inputs) {
      ++uses[input];
    }
  }
  for (ValueId output : region.outputs) {
    ++uses[output];
  }
  for (const Node& node : region.nodes) {
    if (node.op == &fused_op()) {
      for (const FusedPart& part : parts_of(node.regions)) {
        std::vector<Tensor> inputs;
        for (std::size_t i = 0; i < part.region.inputs.size(); ++i) {
          inputs.push_back(values[node.inputs[part.first_input + i]]);
        }
        const std::vector<Tensor> outputs = evaluate(part.region, inputs);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          values[node.outputs[part.first_output + i]] = outputs[i];
        }
      }
    } else if (node.is_control()) {
      std::vector<Tensor> inputs;
      for (ValueId input : node.inputs) {
        inputs.push_back(values[input]);
      }
      const std::vector<Tensor> outputs =
          apply_control(*node.op, node.attributes.get(), node.regions, inputs, node.provenance.where);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        values[node.outputs[i]] = outputs[i];
      }
    } else {
      const Tensor* inputs[kMaxInputs];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        inputs[i] = &values[node.inputs[i]];
      }
      values[node.output()] =
          apply(*node.op, {inputs, node.inputs.size()}, node.attributes.get(), node.provenance.where);
    }
    for (ValueId input : node.inputs) {
      if (--uses[input] == 0) {
        values[input] = Tensor();
      }
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId output : region.outputs) {
    outputs.push_back(values[output]);
  }
  return outputs;
}

Tensor dense(const Tensor& tensor, Location where) {
  if (tensor.strides() == contiguous_strides(tensor.shape())) {
    return tensor;
  }
  // In what counts as contiguous, axes of length 1 may have any stride; a reshape gives them the dense one.
  return tensor.is_contiguous() ? reshape(tensor, tensor.shape(), where) : copy(tensor, where);
}

namespace {

/// Watches the arguments at `targets` in place, and returns them.
std::vector<Tensor> watch(std::vector<Tensor>& arguments, std::span<const std::size_t> targets, Location where) {
  std::vector<Tensor> watched;
  for (const std::size_t target : targets) {
    watched.push_back(arguments[target] = autograd::watch(arguments[target], where));
  }
  return watched;
}

}  // namespace

std::vector<Tensor> region_vjp(const Graph& region, std::span<const Tensor> inputs,
                               std::span<const std::size_t> outputs, std::span<const Tensor> cotangents,
                               std::span<const std::size_t> targets, Location where) {
  const EnableGrad enable;
  const std::uint64_t serial = autograd::next_serial();
  std::vector<Tensor> arguments(inputs.begin(), inputs.end());
  const std::vector<Tensor> watched = watch(arguments, targets, where);
  const std::vector<Tensor> all = evaluate(region, arguments);
  std::vector<Tensor> results;
  for (std::size_t output : outputs) {
    results.push_back(all[output]);
  }
  return autograd::gradients(results, watched, cotangents, {/*release=*/true, serial}, where).gradients;
}

RegionTangents region_jvp(const Graph& region, std::span<const Tensor> inputs, std::span<const std::size_t> targets,
                          std::span<const Tensor> tangents, Location where) {
  const EnableGrad enable;
  const autograd::SaveAll save_all;
  const std::uint64_t serial = autograd::next_serial();
  std::vector<Tensor> arguments(inputs.begin(), inputs.end());
  const std::vector<Tensor> watched = watch(arguments, targets, where);
  RegionTangents result{evaluate(region, arguments), {}};
  result.tangents = autograd::push_forward(watched, tangents, result.values, serial, where).tangents;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const TensorType& type = result.values[i].type();
    if (!is_floating(type.dtype)) {
      result.tangents[i] = Tensor();
    } else if (!result.tangents[i].defined()) {
      result.tangents[i] = full(type.shape, 0.0, type.dtype, where);
    }
    result.values[i] = detached_alias(result.values[i]);
  }
  return result;
}

}  // namespace diptych::graph
