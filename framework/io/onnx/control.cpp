// If, Loop and Scan: parts known when the model is imported are unrolled; the rest becomes control flow of the engine.

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "framework/capture/capture.h"
#include "framework/capture/control_flow.h"
#include "framework/core/context.h"
#include "framework/io/onnx/program.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// A body with its captured values, which are the node's last inputs.
struct Body {
  std::shared_ptr<const GraphProgram> program;
  std::size_t first_captured = 0;  ///< index among the node's inputs

  std::vector<Value> call(std::vector<Value> own, Inputs in) const {
    const Inputs captured = in.subspan(first_captured, program->captured.size());
    own.insert(own.end(), captured.begin(), captured.end());
    return program->call(own);
  }
};

std::vector<Value> unknown(std::span<const Tensor> tensors) {
  std::vector<Value> values;
  for (const Tensor& tensor : tensors) {
    values.push_back({tensor, false});
  }
  return values;
}

std::vector<Tensor> tensors_of(std::span<const Value> values) {
  std::vector<Tensor> tensors;
  for (const Value& value : values) {
    if (value.is_no_tensor()) {
      throw Unsupported("a sequence or an optional that depends on elements");
    }
    tensors.push_back(value.tensor);
  }
  return tensors;
}

void mark_drawn(Outputs out) {
  for (Value& value : out) {
    value.drawn = true;
  }
}

void give(std::vector<Value> results, Outputs out) {
  if (results.size() < out.size()) {
    throw Error(fmt::format("a body gives {} values for {} outputs", results.size(), out.size()));
  }
  std::move(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(out.size()), out.begin());
}

Translation branch(NodeView& node) {
  node.check_inputs(1, 1);
  const Body then{node.body("then_branch"), 1};
  const Body otherwise{node.body("else_branch"), 1 + then.program->captured.size()};
  Translation result{[=](Inputs in, Outputs out, Location where) {
    if (in[0].known) {
      give((in[0].tensor.item() != 0 ? then : otherwise).call({}, in), out);
      return;
    }
    const auto run = [&in](const Body& body) {
      return [&body, in](std::span<const Tensor> /*operands*/) { return tensors_of(body.call({}, in)); };
    };
    try {
      give(unknown(graph::cond_flat(reshape(in[0].tensor, {}, where), run(then), run(otherwise), {}, where)), out);
      if (then.program->draws || otherwise.program->draws) {
        mark_drawn(out);
      }
    } catch (const ShapeError& error) {
      throw Unsupported(fmt::format("branches that give other types, by a condition from elements: {}", error.what()));
    }
  }};
  result.sets_known = true;
  result.draws = then.program->draws || otherwise.program->draws;
  result.takes_sequences = true;
  return result;
}

/// The types that a body gives for arguments like these: it is captured, and nothing runs.
std::vector<TensorType> types_given(const Body& body, const std::vector<Value>& own, Inputs in) {
  graph::Capture capture("body");
  std::vector<Value> arguments = own;
  const Inputs captured = in.subspan(body.first_captured, body.program->captured.size());
  arguments.insert(arguments.end(), captured.begin(), captured.end());
  for (Value& argument : arguments) {
    if (!argument.known && !argument.is_no_tensor()) {
      argument.tensor = capture.argument(argument.tensor.type(), "value");
    }
  }
  const graph::CaptureScope scope(capture);
  const NoGrad guard;
  std::vector<TensorType> types;
  for (const Value& result : body.program->call(arguments)) {
    types.push_back(result.tensor.type());
  }
  return types;
}

/// No rows of a type.
Tensor no_rows(const TensorType& row, int axis, Location where) {
  Shape shape = row.shape;
  shape.push_back(0);
  for (int i = shape.rank() - 1; i > axis; --i) {
    std::swap(shape[i], shape[i - 1]);
  }
  return full(shape, 0, row.dtype, where);
}

/// The rows of one output of a body, stacked into one tensor; of none, those of its type.
Value collected_rows(const std::vector<Value>& rows, const TensorType& type, int axis, Location where) {
  const KnownScope scope(std::all_of(rows.begin(), rows.end(), [](const Value& row) { return row.known; }));
  Value result{rows.empty() ? no_rows(type, axis, where) : stack(tensors_of(rows), axis, where), false};
  result.known = std::all_of(rows.begin(), rows.end(), [](const Value& row) { return row.known; });
  result.drawn = std::any_of(rows.begin(), rows.end(), [](const Value& row) { return row.drawn; });
  return result;
}

/// The node's inputs on whose elements it depends how often a loop's body runs. A condition from what is carried
/// depends on what that was made of before.
std::vector<int> inputs_behind_condition(const Body& body, std::size_t carried) {
  const GraphProgram& program = *body.program;
  std::set<int> sources{program.outputs[0]};
  for (std::size_t before = 0; before != sources.size();) {
    before = sources.size();
    sources = program.sources_of(std::move(sources));
    for (std::size_t i = 0; i < carried; ++i) {
      if (sources.contains(program.inputs[2 + i])) {
        sources.insert(program.outputs[1 + i]);
      }
    }
  }
  std::vector<int> inputs;
  for (std::size_t i = 0; i < carried; ++i) {
    if (sources.contains(program.inputs[2 + i])) {
      inputs.push_back(static_cast<int>(2 + i));
    }
  }
  for (std::size_t i = 0; i < program.captured.size(); ++i) {
    if (sources.contains(program.numbers.at(program.captured[i]))) {
      inputs.push_back(static_cast<int>(body.first_captured + i));
    }
  }
  return inputs;
}

/// M, condition, v... ; the body: iteration, condition, v... -> condition, v..., rows...
Translation loop(NodeView& node) {
  node.check_inputs(0, NodeView::kAny);
  const auto carried = static_cast<std::size_t>(std::max(node.inputs() - 2, 0));
  const Body body{node.body("body"), static_cast<std::size_t>(node.inputs())};
  if (body.program->inputs.size() != carried + 2 || body.program->outputs.size() < carried + 1) {
    node.malformed("its body doesn't take and give what it carries");
  }
  const std::size_t rows = body.program->outputs.size() - 1 - carried;
  const int own = node.inputs();
  Translation result{[=](Inputs in, Outputs out, Location where) {
    const bool has_trip = own > 0 && in[0].tensor.defined();
    const bool has_condition = own > 1 && in[1].tensor.defined();
    std::vector<Value> state;
    if (carried > 0) {
      state.assign(in.begin() + 2, in.begin() + static_cast<std::ptrdiff_t>(2 + carried));
    }
    Value condition = has_condition ? in[1] : Value{Tensor::from({true}, {}), true};
    constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
    const bool knows_trips = !has_trip || in[0].known;
    const std::int64_t most = has_trip && knows_trips ? host_integer(in[0].tensor) : kEndless;
    std::int64_t done = 0;
    // Iterations are run here as long as it is known whether there is another one.
    if (knows_trips && condition.known) {
      std::vector<std::vector<Value>> collected(rows);
      const auto arguments_of = [&](std::int64_t iteration) {
        std::vector<Value> arguments{{Tensor::scalar(iteration), true}, condition};
        arguments.insert(arguments.end(), state.begin(), state.end());
        return arguments;
      };
      for (; done < most && condition.known && condition.tensor.item() != 0; ++done) {
        std::vector<Value> results = body.call(arguments_of(done), in);
        condition = results[0];
        state.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
        for (std::size_t r = 0; r < rows; ++r) {
          collected[r].push_back(results[1 + carried + r]);
        }
      }
      if (condition.known || done == most) {
        const std::vector<TensorType> types = rows > 0 && done == 0 ? types_given(body, arguments_of(0), in)
                                                                    : std::vector<TensorType>(1 + carried + rows);
        for (std::size_t r = 0; r < rows; ++r) {
          state.push_back(collected_rows(collected[r], types[1 + carried + r], 0, where));
        }
        give(std::move(state), out);
        return;
      }
    }
    // From here on it is known only while it runs: after none of them, or after the first ones of a do-while.
    std::vector<Tensor> init{Tensor::scalar(done), reshape(condition.tensor, {}, where)};
    const std::vector<Tensor> carried_tensors = tensors_of(state);
    init.insert(init.end(), carried_tensors.begin(), carried_tensors.end());
    const Tensor trips = has_trip ? reshape(in[0].tensor, {}, where) : Tensor::scalar(kEndless);
    constexpr std::int64_t kMostStored = 4096;  // what gradients keep of each iteration has room for all of them
    const std::int64_t left = most - done;
    const std::vector<Tensor> last = graph::while_flat(
        [&](std::span<const Tensor> now) {
          return std::vector<Tensor>{logical_and(now[1], less(now[0], trips, where), where)};
        },
        [&](std::span<const Tensor> now) {
          const Iteration guard;
          std::vector<Tensor> next = tensors_of(body.call(unknown(now), in));
          next[0] = reshape(next[0], {}, where);
          next.insert(next.begin(), add(now[0], Tensor::scalar(std::int64_t{1}), where));
          return next;
        },
        init, {.max_iterations = left > 0 && left <= kMostStored ? left : 0}, where);
    give(unknown(std::span(last).subspan(2)), out);
    if (body.program->draws) {
      mark_drawn(out);
    }
  }};
  if (rows > 0) {  // how many rows there are has to be known
    result.host_inputs = inputs_behind_condition(body, carried);
    result.host_inputs.insert(result.host_inputs.end(), {0, 1});
  }
  result.takes_sequences = true;
  result.sets_known = true;
  result.draws = body.program->draws;
  return result;
}

/// Carried values, then tensors whose rows are visited together.
Translation scan_rows(NodeView& node) {
  const std::int64_t scanned = node.integer("num_scan_inputs", 0);
  const auto directions = node.integers("scan_input_directions").value_or(std::vector<std::int64_t>());
  const auto axes = node.integers("scan_input_axes").value_or(std::vector<std::int64_t>());
  const auto out_directions = node.integers("scan_output_directions").value_or(std::vector<std::int64_t>());
  const auto out_axes = node.integers("scan_output_axes").value_or(std::vector<std::int64_t>());
  const Body body{node.body("body"), static_cast<std::size_t>(node.inputs())};
  node.check_inputs(1, NodeView::kAny);
  if (scanned < 1 || scanned > node.inputs() ||
      body.program->inputs.size() != static_cast<std::size_t>(node.inputs()) ||
      body.program->outputs.size() < static_cast<std::size_t>(node.inputs() - scanned)) {
    node.malformed("its body doesn't take and give what it carries");
  }
  const auto carried = static_cast<std::size_t>(node.inputs() - scanned);
  const auto entry = [](const std::vector<std::int64_t>& list, std::size_t index) {
    return index < list.size() ? list[index] : 0;
  };
  Translation result{[=](Inputs in, Outputs out, Location where) {
    std::vector<Value> state(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carried));
    const std::size_t rows = body.program->outputs.size() - carried;
    std::int64_t length = -1;
    std::vector<int> along;
    for (std::size_t i = carried; i < carried + static_cast<std::size_t>(scanned); ++i) {
      along.push_back(axis_of(entry(axes, i - carried), in[i].tensor.rank()));
      const std::int64_t mine = in[i].tensor.shape()[along.back()];
      if (length >= 0 && mine != length) {
        throw ShapeError(fmt::format("{} and {} rows", length, mine));
      }
      length = mine;
    }
    std::vector<std::vector<Value>> collected(rows);
    const auto arguments_of = [&](const auto& row_of) {
      std::vector<Value> arguments = state;
      for (std::size_t i = 0; i < along.size(); ++i) {
        arguments.push_back({row_of(in[carried + i].tensor, i), false});
      }
      return arguments;
    };
    for (std::int64_t step = 0; step < length; ++step) {
      std::vector<Value> results =
          body.call(arguments_of([&](const Tensor& source, std::size_t i) {
                      return select(source, along[i], entry(directions, i) != 0 ? length - 1 - step : step, where);
                    }),
                    in);
      state.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carried));
      for (std::size_t r = 0; r < rows; ++r) {
        collected[r].push_back(results[carried + r]);
      }
    }
    std::vector<TensorType> types(carried + rows);
    if (length == 0) {
      types = types_given(body, arguments_of([&](const Tensor& source, std::size_t i) {
                            Shape row;
                            for (int axis = 0; axis < source.rank(); ++axis) {
                              if (axis != along[i]) {
                                row.push_back(source.shape()[axis]);
                              }
                            }
                            return full(row, 0, source.dtype(), where);
                          }),
                          in);
    }
    for (std::size_t r = 0; r < rows; ++r) {
      if (entry(out_directions, r) != 0) {
        std::reverse(collected[r].begin(), collected[r].end());
      }
      const int rank = (length > 0 ? collected[r][0].tensor.rank() : types[carried + r].shape.rank()) + 1;
      state.push_back(collected_rows(collected[r], types[carried + r], axis_of(entry(out_axes, r), rank), where));
    }
    for (Value& value : state) {
      value.known = false;
    }
    give(std::move(state), out);
  }};
  result.sets_known = true;
  result.draws = body.program->draws;
  return result;
}

}  // namespace

void add_control(std::vector<Operator>& all) {
  all.push_back({"If", 1, kNewestOpset, branch});
  all.push_back({"Loop", 1, kNewestOpset, loop, "with rows to collect, its condition follows from known tensors"});
  all.push_back({"Scan", 9, kNewestOpset, scan_rows});
}

}  // namespace diptych::onnx
