#include "framework/autograd/functional.h"

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/autograd/forward.h"
#include "framework/core/tensor_body.h"
#include "framework/ops/creation.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::detail {

void check_like(const char* transform, std::span<const Tensor> given, std::span<const Tensor> expected,
                Location where) {
  if (given.size() != expected.size()) {
    throw Error(fmt::format("{}: {} tensors for {}", transform, given.size(), expected.size()), where,
                "give one for each, in the same structure");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || given[i].type() != expected[i].type()) {
      throw ShapeError(
          fmt::format("{}: tensor {} is {}, not {}", transform, i,
                      given[i].defined() ? to_string(given[i].type()) : "undefined", to_string(expected[i].type())),
          where, "a tangent or cotangent has the type of its value");
    }
  }
}

std::vector<Tensor> Recording::values() const {
  const bool outer = thread_context.grad_enabled && !autograd::dependencies(outputs, serial).empty();
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) {
    result.push_back(outer ? output : detached_alias(output));
  }
  return result;
}

std::vector<Tensor> Recording::pull(std::span<const Tensor> cotangents) const {
  check_like("vjp", cotangents, outputs, where);
  return autograd::gradients(outputs, inputs, cotangents, {/*release=*/false, serial}, where).gradients;
}

std::vector<Tensor> Recording::push(std::span<const Tensor> tangents) const {
  check_like("jvp", tangents, inputs, where);
  std::vector<Tensor> results = autograd::push_forward(inputs, tangents, outputs, serial, where).tangents;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) {
      results[i] = full_like(outputs[i], 0.0, where);
    }
  }
  return results;
}

Tensor basis(const Tensor& like, std::int64_t k, Location where) {
  Tensor row = Tensor::empty(like.dtype(), {like.numel()});
  visit(like.dtype(), [&]<class T>() {
    std::fill_n(static_cast<T*>(row.body()->data), like.numel(), T(0));
    static_cast<T*>(row.body()->data)[k] = T(1);
  });
  return reshape(row, like.shape(), where);
}

Tensor one(const Tensor& scalar, const char* transform, Location where) {
  if (scalar.numel() != 1) {
    throw ShapeError(fmt::format("{}: the function returned {}, not a scalar", transform, to_string(scalar.type())),
                     where, "reduce it with sum() or mean() first");
  }
  return full_like(scalar, 1.0, where);
}

Tensor stack_rows(const std::vector<Tensor>& rows, const Shape& leading, const TensorType& row, Location where) {
  Shape shape = leading;
  for (std::int64_t length : row.shape) {
    shape.push_back(length);
  }
  return rows.empty() ? zeros(shape, row.dtype, where) : reshape(stack(rows, 0, where), shape, where);
}

Tensor stack_columns(const std::vector<Tensor>& columns, const Shape& trailing, const TensorType& column,
                     Location where) {
  Shape shape = column.shape;
  for (std::int64_t length : trailing) {
    shape.push_back(length);
  }
  return columns.empty() ? zeros(shape, column.dtype, where) : reshape(stack(columns, -1, where), shape, where);
}

const Tensor& argument_at(std::span<const Tensor> arguments, int position, const char* transform, Location where) {
  if (position < 0 || static_cast<std::size_t>(position) >= arguments.size()) {
    throw Error(fmt::format("{}: there is no argument {} among {}", transform, position, arguments.size()), where,
                "positions count from 0");
  }
  return arguments[static_cast<std::size_t>(position)];
}

}  // namespace diptych::detail
