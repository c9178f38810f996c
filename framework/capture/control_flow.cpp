#include "framework/capture/control_flow.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/capture/control_apply.h"
#include "framework/core/context.h"
#include "framework/dispatch/tape.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {
namespace {

std::vector<TensorType> types_of(std::span<const Tensor> tensors, const char* op, Location where) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      throw Error(fmt::format("{}: input {} is undefined", op, types.size()), where, "assign a value to it first");
    }
    types.push_back(tensor.type());
  }
  return types;
}

/// `given`: the first results of a loop's body, or the results of cond's second branch.
void check_types(std::span<const Tensor> given, std::span<const TensorType> expected, std::string_view leaf,
                 std::string_view hint, Location where) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!given[i].defined()) {
      throw Error(fmt::format("{} {} is undefined", leaf, i), where, "assign a value to it first");
    }
    if (given[i].type() != expected[i]) {
      const std::string what =
          fmt::format("{} {} changed from {} to {}", leaf, i, to_string(expected[i]), to_string(given[i].type()));
      if (given[i].dtype() != expected[i].dtype) {
        throw DTypeError(what, where, hint);
      }
      throw ShapeError(what, where, hint);
    }
  }
}

void check_carries(std::span<const Tensor> given, std::span<const TensorType> carries, const char* op, Location where) {
  check_types(given, carries, fmt::format("{}: carry leaf", op),
              "a loop carries the same types through all iterations; cast or reshape in the body", where);
}

bool may_run_natively() { return thread_context.tracer() == nullptr && !autograd::may_want_gradients(); }

/// Whether a gradient is wanted with respect to any input of the node.
bool any_watched(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.requires_grad(); });
}

/// Assigns new values to variables. Gradients don't flow through assignments.
void assign_all(const Variables& variables, std::span<const Tensor> values, Location where) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    Variable variable = variables[i];
    variable.assign(values[i], where);
  }
}

/// Adds the values that a region has assigned to `variables` to its results, from position `at` on.
void add_variable_results(RegionTrace& trace, const Variables& variables, std::size_t at, Location where) {
  trace.extend([&] {
    std::vector<Tensor> values;
    for (const Variable& variable : variables) {
      values.push_back(variable.value());
    }
    trace.results.insert(trace.results.begin() + static_cast<std::ptrdiff_t>(at), values.begin(), values.end());
    if (trace.results.empty()) {  // the node exists for its effects
      trace.results.push_back(zeros({0}, DType::uint8, where));
    }
  });
}

}  // namespace

std::vector<Tensor> cond_flat(const Tensor& predicate, const RegionFunction& then, const RegionFunction& otherwise,
                              std::span<const Tensor> operands, Location where) {
  const std::vector<TensorType> types = types_of(operands, "cond", where);
  const auto run_natively = [&] {
    std::vector<Tensor> results = read_predicate(predicate, "cond", where) ? then(operands) : otherwise(operands);
    for (Tensor& result : results) {
      result = dense(result, where);
    }
    return results;
  };
  if (may_run_natively()) {
    return run_natively();
  }
  RegionTrace traces[] = {{"cond.then", then, types, where}, {"cond.else", otherwise, types, where}};
  const std::size_t given = traces[0].results.size();
  if (given != traces[1].results.size()) {
    throw Error(fmt::format("cond: the first branch gives {} tensors, the second {}", given, traces[1].results.size()),
                where, "both branches give the same");
  }
  check_types(traces[1].results, types_of(traces[0].results, "cond", where), "cond: from one branch to the other, leaf",
              "both branches give the same types; cast or reshape in one of them", where);
  Variables assigned = traces[0].capture.assigned_variables();
  for (const Variable& variable : traces[1].capture.assigned_variables()) {
    if (std::find(assigned.begin(), assigned.end(), variable) == assigned.end()) {
      assigned.push_back(variable);
    }
  }
  for (RegionTrace& trace : traces) {
    add_variable_results(trace, assigned, given, where);
  }
  RegionTrace* const both[] = {&traces[0], &traces[1]};
  const Closure closure(both, {});
  std::vector<Tensor> inputs = {predicate};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  closure.append_operands(inputs);
  if (thread_context.tracer() == nullptr && !any_watched(inputs)) {
    return run_natively();
  }
  if (predicate.dtype() != DType::boolean || predicate.rank() != 0) {
    read_predicate(predicate, "cond", where);  // throws
  }
  Regions regions;
  for (RegionTrace& trace : traces) {
    std::vector<ValueId> values = trace.argument_values(0, operands.size());
    closure.append_values(trace, values);
    regions.push_back(trace.capture.finish_region(values, trace.results, where));
  }
  std::vector<Tensor> results = apply_control(cond_op(), nullptr, regions, inputs, where);
  assign_all(assigned, std::span(results).subspan(given, assigned.size()), where);
  results.resize(given);
  return results;
}

std::vector<Tensor> while_flat(const RegionFunction& condition, const RegionFunction& body,
                               std::span<const Tensor> init, const WhileOptions& options, Location where) {
  if (options.max_iterations < 0) {
    throw Error("while_loop: max_iterations is negative", where, "0 means no bound");
  }
  const std::vector<TensorType> types = types_of(init, "while_loop", where);
  WhileAttributes attributes{static_cast<std::int64_t>(init.size()), options.max_iterations, false};
  const auto run_natively = [&] {
    return run_while(
        attributes,
        [&](std::span<const Tensor> carries) { return read_predicate(condition(carries)[0], "while_loop", where); },
        [&](std::span<const Tensor> carries, std::span<const Tensor> /*rows*/) {
          std::vector<Tensor> results = body(carries);
          check_carries(results, types, "while_loop", where);
          return results;
        },
        init, where);
  };
  if (may_run_natively()) {
    return run_natively();
  }
  RegionTrace traces[] = {{"while_loop.condition", condition, types, where}, {"while_loop.body", body, types, where}};
  RegionTrace& condition_trace = traces[0];
  RegionTrace& body_trace = traces[1];
  if (const Tensor& predicate = condition_trace.results[0];
      !predicate.defined() || predicate.dtype() != DType::boolean || predicate.rank() != 0) {
    read_predicate(predicate, "while_loop", where);  // throws
  }
  if (!condition_trace.capture.assigned_variables().empty()) {
    throw CaptureError(fmt::format("while_loop: the condition assigns variable '{}'",
                                   condition_trace.capture.assigned_variables()[0].name()),
                       where, "assign it in the body");
  }
  check_carries(body_trace.results, types, "while_loop", where);
  const Variables assigned = body_trace.capture.assigned_variables();
  add_variable_results(body_trace, assigned, init.size(), where);
  if (init.empty() && assigned.empty()) {
    throw CaptureError("while_loop: nothing can change from one iteration to the next", where,
                       "carry a tensor, or assign a variable in the body");
  }
  RegionTrace* const both[] = {&traces[0], &traces[1]};
  const Closure closure(both, assigned);
  std::vector<Tensor> inputs(init.begin(), init.end());
  for (const Variable& variable : assigned) {
    inputs.push_back(variable.value());
  }
  closure.append_operands(inputs);
  if (thread_context.tracer() == nullptr && !any_watched(inputs)) {
    return run_natively();
  }
  Regions regions;
  for (RegionTrace& trace : traces) {
    std::vector<ValueId> values = trace.argument_values(0, init.size());
    for (const Variable& variable : assigned) {
      values.push_back(trace.capture.close_over(variable));
    }
    closure.append_values(trace, values);
    regions.push_back(trace.capture.finish_region(values, trace.results, where));
  }
  attributes.carries += static_cast<std::int64_t>(assigned.size());
  std::vector<Tensor> results = apply_control(while_op(), &attributes, regions, inputs, where);
  assign_all(assigned, std::span(results).subspan(init.size()), where);
  results.resize(init.size());
  return results;
}

namespace {

/// The common number of rows.
std::int64_t scan_length(std::span<const TensorType> xs, const ScanOptions& options, Location where) {
  std::int64_t length = options.length;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].shape.rank() == 0) {
      throw ShapeError(fmt::format("scan: leaf {} of xs is {}, which has no rows", i, to_string(xs[i])), where,
                       "close over it instead");
    }
    if (length >= 0 && xs[i].shape[0] != length) {
      throw ShapeError(fmt::format("scan: leaf {} of xs has {} rows, not {}", i, xs[i].shape[0], length), where,
                       "all of xs, and the length if it is given, agree in the first axis");
    }
    length = xs[i].shape[0];
  }
  if (length < 0) {
    throw Error("scan: there are no xs to take the length from", where, "give ScanOptions{.length = ...}");
  }
  return length;
}

}  // namespace

std::vector<Tensor> scan_flat(const RegionFunction& body, std::span<const Tensor> init, std::span<const Tensor> xs,
                              const ScanOptions& options, const Tensor& count, Location where) {
  const std::vector<TensorType> carry_types = types_of(init, "scan", where);
  const std::vector<TensorType> xs_types = types_of(xs, "scan", where);
  ScanAttributes attributes{static_cast<std::int64_t>(init.size()), static_cast<std::int64_t>(xs.size()),
                            scan_length(xs_types, options, where), options.reverse, count.defined()};
  std::vector<TensorType> ys;
  const auto run_natively = [&] {
    const std::int64_t visited = count.defined()
                                     ? std::clamp<std::int64_t>(*count.data<std::int64_t>(), 0, attributes.length)
                                     : attributes.length;
    return run_scan(
        attributes, visited,
        [&](std::span<const Tensor> carries, std::span<const Tensor> rows) {
          std::vector<Tensor> arguments(carries.begin(), carries.end());
          arguments.insert(arguments.end(), rows.begin(), rows.end());
          std::vector<Tensor> results = body(arguments);
          check_carries(results, carry_types, "scan", where);
          if (ys.empty()) {
            ys = types_of(std::span(results).subspan(init.size()), "scan", where);
          }
          check_types(std::span(results).subspan(init.size()), ys, "scan: y leaf", "all rows have one type", where);
          return results;
        },
        init, xs, ys, where);
  };
  if (may_run_natively() && attributes.length > 0 && !count.defined()) {
    return run_natively();
  }
  std::vector<TensorType> types = carry_types;
  for (const TensorType& type : xs_types) {
    types.push_back(row_type(type));
  }
  RegionTrace trace("scan.body", body, types, where);
  check_carries(trace.results, carry_types, "scan", where);
  const std::size_t given = trace.results.size();
  const Variables assigned = trace.capture.assigned_variables();
  add_variable_results(trace, assigned, init.size(), where);
  RegionTrace* const one[] = {&trace};
  const Closure closure(one, assigned);
  std::vector<Tensor> inputs;
  if (count.defined()) {
    inputs.push_back(count);
  }
  inputs.insert(inputs.end(), init.begin(), init.end());
  for (const Variable& variable : assigned) {
    inputs.push_back(variable.value());
  }
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  closure.append_operands(inputs);
  if (thread_context.tracer() == nullptr && !any_watched(inputs)) {
    ys = types_of(std::span(trace.results).subspan(init.size() + assigned.size()), "scan", where);
    ys.resize(given - init.size());
    return run_natively();
  }
  std::vector<ValueId> values = trace.argument_values(0, init.size());
  for (const Variable& variable : assigned) {
    values.push_back(trace.capture.close_over(variable));
  }
  const std::vector<ValueId> rows = trace.argument_values(init.size(), xs.size());
  values.insert(values.end(), rows.begin(), rows.end());
  closure.append_values(trace, values);
  const Regions regions = {trace.capture.finish_region(values, trace.results, where)};
  attributes.carries += static_cast<std::int64_t>(assigned.size());
  std::vector<Tensor> results = apply_control(scan_op(), &attributes, regions, inputs, where);
  const auto first = results.begin() + static_cast<std::ptrdiff_t>(init.size());
  const std::vector<Tensor> new_values(first, first + static_cast<std::ptrdiff_t>(assigned.size()));
  assign_all(assigned, new_values, where);
  results.erase(first, first + static_cast<std::ptrdiff_t>(assigned.size()));
  results.resize(given);
  return results;
}

void check_structure(const std::vector<std::size_t>& given, const std::vector<std::size_t>& expected, const char* what,
                     Location where) {
  if (given != expected) {
    throw Error(fmt::format("{} of other lengths", what), where, "lists keep their lengths");
  }
}

}  // namespace diptych::graph
