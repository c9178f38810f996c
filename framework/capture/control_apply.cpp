#include "framework/capture/control_apply.h"

#include <cstring>

#include <fmt/format.h>

#include "framework/capture/region.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/core/trace_points.h"
#include "framework/dispatch/op.h"

namespace diptych::graph {
namespace {

/// Row `index` of a dense tensor; it shares the elements. Eager only, and without a tape.
Tensor row_of(const Tensor& rows, std::int64_t index) {
  TensorBody* body = new_body();
  const Tensor row = Tensor::adopt(body);
  const TensorBody& source = *rows.body();
  make_ready(source);
  source.storage->viewed = true;
  body->type = row_type(source.type);
  body->strides = contiguous_strides(body->type.shape);
  body->numel = body->type.shape.product();
  body->storage = source.storage;
  body->data = source.bytes() + index * body->numel * static_cast<std::int64_t>(size_of(body->type.dtype));
  return row;
}

/// A stacked tensor, filled row by row.
class Stack {
 public:
  Stack(std::int64_t length, const TensorType& row) {
    const TensorType type = rows_type(length, row);
    rows_ = Tensor::empty(type.dtype, type.shape);
    row_bytes_ = bytes_of(row);
  }
  void set(std::int64_t index, const Tensor& row, Location where) {
    const Tensor source = dense(row, where);
    make_ready(*source.body());
    if (row_bytes_ > 0) {
      std::memcpy(at(index), source.body()->data, row_bytes_);
    }
  }
  Tensor finish(std::int64_t first_unset) {
    if (const std::size_t left = bytes_of(rows_.type()) - static_cast<std::size_t>(first_unset) * row_bytes_;
        left > 0) {
      std::memset(at(first_unset), 0, left);
    }
    return std::move(rows_);
  }

 private:
  std::byte* at(std::int64_t index) { return rows_.body()->bytes() + static_cast<std::size_t>(index) * row_bytes_; }

  Tensor rows_;
  std::size_t row_bytes_;
};

std::vector<Tensor> all_dense(std::span<const Tensor> tensors, Location where) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    result.push_back(dense(tensor, where));
  }
  return result;
}

std::vector<Tensor> joined(std::span<const Tensor> a, std::span<const Tensor> b, std::span<const Tensor> c = {}) {
  std::vector<Tensor> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

/// Interprets control flow on elements, region by region and op by op.
std::vector<Tensor> interpret(const OpDef& op, const void* attributes, const Regions& regions,
                              std::span<const Tensor> inputs, Location where) {
  if (&op == &cond_op()) {
    const Graph& branch = *regions[read_predicate(inputs[0], "cond", where) ? 0 : 1];
    return all_dense(evaluate(branch, inputs.subspan(1)), where);
  }
  if (&op == &while_op()) {
    const auto& loop = *static_cast<const WhileAttributes*>(attributes);
    const auto carries = static_cast<std::size_t>(loop.carries);
    const auto closed = inputs.subspan(carries);
    return run_while(
        loop,
        [&](std::span<const Tensor> values) {
          return read_predicate(evaluate(*regions[0], joined(values, closed))[0], "while_loop", where);
        },
        [&](std::span<const Tensor> values, std::span<const Tensor> /*rows*/) {
          return evaluate(*regions[1], joined(values, closed));
        },
        inputs.first(carries), where);
  }
  const auto& loop = *static_cast<const ScanAttributes*>(attributes);
  std::int64_t count = loop.length;
  if (loop.bounded) {
    count = std::clamp<std::int64_t>(*inputs[0].data<std::int64_t>(), 0, loop.length);
    inputs = inputs.subspan(1);
  }
  const auto carries = static_cast<std::size_t>(loop.carries);
  const auto scanned = static_cast<std::size_t>(loop.scanned);
  const auto closed = inputs.subspan(carries + scanned);
  std::vector<TensorType> ys;
  for (std::size_t i = carries; i < regions[0]->outputs.size(); ++i) {
    ys.push_back(regions[0]->types[regions[0]->outputs[i]]);
  }
  return run_scan(
      loop, count,
      [&](std::span<const Tensor> values, std::span<const Tensor> rows) {
        return evaluate(*regions[0], joined(values, rows, closed));
      },
      inputs.first(carries), inputs.subspan(carries, scanned), ys, where);
}

}  // namespace

std::vector<Tensor> run_control(const OpDef& op, const void* attributes, const Regions& regions,
                                std::span<const Tensor> inputs, Location where) {
  if (Capture* capture = active_capture()) {
    return capture->record_control(op, inputs, attributes, regions, where);
  }
  const trace::Zone zone(&op.label);
  return interpret(op, attributes, regions, inputs, where);
}

std::vector<Tensor> run_while(const WhileAttributes& attributes, const LoopCondition& condition, const LoopBody& body,
                              std::span<const Tensor> init, Location where) {
  std::vector<Tensor> carries = all_dense(init, where);
  std::vector<Stack> history;
  if (attributes.record) {
    for (const Tensor& carry : carries) {
      history.emplace_back(attributes.limit, carry.type());
    }
  }
  std::int64_t count = 0;
  for (; condition(carries); ++count) {
    if (attributes.limit > 0 && count == attributes.limit) {
      ElementError error = iteration_limit_error(attributes.limit);
      error.locate(where);
      throw error;
    }
    for (std::size_t i = 0; i < history.size(); ++i) {
      history[i].set(count, carries[i], where);
    }
    carries = all_dense(body(carries, {}), where);
  }
  for (Stack& stack : history) {
    carries.push_back(stack.finish(count));
  }
  if (attributes.record) {
    carries.push_back(Tensor::scalar(count));
  }
  return carries;
}

std::vector<Tensor> run_scan(const ScanAttributes& attributes, std::int64_t count, const LoopBody& body,
                             std::span<const Tensor> init, std::span<const Tensor> xs, std::span<const TensorType> ys,
                             Location where) {
  std::vector<Tensor> carries = all_dense(init, where);
  const std::vector<Tensor> dense_xs = all_dense(xs, where);
  std::vector<Stack> stacks;
  for (const TensorType& type : ys) {
    stacks.emplace_back(attributes.length, type);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = attributes.reverse ? count - 1 - i : i;
    std::vector<Tensor> rows;
    for (const Tensor& x : dense_xs) {
      rows.push_back(row_of(x, index));
    }
    std::vector<Tensor> results = body(carries, rows);
    for (std::size_t y = carries.size(); y < results.size(); ++y) {
      if (stacks.size() <= y - carries.size()) {
        stacks.emplace_back(attributes.length, results[y].type());
      }
      stacks[y - carries.size()].set(index, results[y], where);
    }
    results.resize(carries.size());
    carries = all_dense(results, where);
  }
  for (Stack& stack : stacks) {
    carries.push_back(stack.finish(count));
  }
  return carries;
}

bool read_predicate(const Tensor& predicate, const char* op, Location where) {
  if (!predicate.defined() || predicate.dtype() != DType::boolean || predicate.rank() != 0) {
    throw ShapeError(fmt::format("{}: the predicate is {}, not bool[]", op,
                                 predicate.defined() ? to_string(predicate.type()) : "undefined"),
                     where, "compare, and reduce to one element");
  }
  return *predicate.data<bool>(where);
}

ElementError iteration_limit_error(std::int64_t limit) {
  return {fmt::format("while_loop: the condition still holds after max_iterations = {}", limit),
          "give a higher bound, or mend the condition"};
}

}  // namespace diptych::graph
