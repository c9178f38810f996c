// If, Loop and Scan: parts known when the model is imported are unrolled; the rest becomes control flow of the engine.

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "framework/capture/control_flow.h"
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
    tensors.push_back(value.tensor);
  }
  return tensors;
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
    } catch (const ShapeError& error) {
      throw Unsupported(fmt::format("branches that give other types, by a condition from elements: {}", error.what()));
    }
  }};
  result.sets_known = true;
  return result;
}

/// The rows of one output of a body, stacked into one tensor.
Tensor stacked(const std::vector<Value>& rows, int axis, Location where) {
  return stack(tensors_of(rows), axis, where);
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
    // Iterations are run here as long as it is known whether there is another one.
    if ((!has_trip || in[0].known) && condition.known) {
      const std::int64_t trips = has_trip ? host_integer(in[0].tensor) : std::numeric_limits<std::int64_t>::max();
      std::vector<std::vector<Value>> collected(rows);
      for (std::int64_t i = 0; i < trips && condition.tensor.item() != 0; ++i) {
        std::vector<Value> arguments{{Tensor::scalar(i), true}, condition};
        arguments.insert(arguments.end(), state.begin(), state.end());
        std::vector<Value> results = body.call(std::move(arguments), in);
        condition = results[0];
        if (!condition.known) {
          throw Unsupported("whether it goes on depends on elements, though its first condition is a constant");
        }
        state.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
        for (std::size_t r = 0; r < rows; ++r) {
          collected[r].push_back(results[1 + carried + r]);
        }
      }
      for (std::size_t r = 0; r < rows; ++r) {
        if (collected[r].empty()) {
          throw Unsupported("it runs no iteration: what it would collect has no shape");
        }
        const bool known =
            std::all_of(collected[r].begin(), collected[r].end(), [](const Value& v) { return v.known; });
        const KnownScope scope(known);
        state.push_back({stacked(collected[r], 0, where), known});
      }
      give(std::move(state), out);
      return;
    }
    std::vector<Tensor> init{Tensor::scalar(std::int64_t{0}), reshape(condition.tensor, {}, where)};
    for (const Value& value : state) {
      init.push_back(value.tensor);
    }
    const Tensor trips =
        has_trip ? reshape(in[0].tensor, {}, where) : Tensor::scalar(std::numeric_limits<std::int64_t>::max());
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
        init, {}, where);
    give(unknown(std::span(last).subspan(2)), out);
  }};
  if (rows > 0) {
    result.host_inputs = {0, 1};  // how many rows there are has to be known
  }
  result.sets_known = true;
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
    for (std::int64_t step = 0; step < length; ++step) {
      std::vector<Value> arguments = state;
      for (std::size_t i = 0; i < along.size(); ++i) {
        const Value& source = in[carried + i];
        const std::int64_t row = entry(directions, i) != 0 ? length - 1 - step : step;
        arguments.push_back({select(source.tensor, along[i], row, where), false});
      }
      std::vector<Value> results = body.call(std::move(arguments), in);
      state.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carried));
      for (std::size_t r = 0; r < rows; ++r) {
        collected[r].push_back(results[carried + r]);
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      if (collected[r].empty()) {
        throw Unsupported("it visits no row: what it would collect has no shape");
      }
      if (entry(out_directions, r) != 0) {
        std::reverse(collected[r].begin(), collected[r].end());
      }
      const int rank = collected[r][0].tensor.rank() + 1;
      state.push_back({stacked(collected[r], axis_of(entry(out_axes, r), rank), where), false});
    }
    for (Value& value : state) {
      value.known = false;
    }
    give(std::move(state), out);
  }};
  result.sets_known = true;
  return result;
}

}  // namespace

void add_control(std::vector<Operator>& all) {
  all.push_back({"If", 1, kNewestOpset, branch});
  all.push_back({"Loop", 1, kNewestOpset, loop, "rows are collected over a known number of iterations"});
  all.push_back({"Scan", 9, kNewestOpset, scan_rows});
}

}  // namespace diptych::onnx
