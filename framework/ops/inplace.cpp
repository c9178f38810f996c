#include "framework/ops/inplace.h"

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/launches.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/dispatch/tape.h"
#include "framework/kernels/bound_call.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using Compute = Tensor (*)(const Tensor& x, const Tensor& value, Location where);

/// Whether two elements of x share a memory location.
bool repeats(const TensorBody& body) {
  for (int axis = 0; axis < body.type.shape.rank(); ++axis) {
    if (body.type.shape[axis] > 1 && body.strides[axis] == 0) {
      return true;
    }
  }
  return false;
}

void check(const char* name, const Tensor& x, const Tensor& value, Location where) {
  if (!x.defined() || !value.defined()) {
    throw Error(fmt::format("{}: {} is undefined", name, x.defined() ? "the value" : "the tensor"), where,
                "assign a value to it first");
  }
  Shape common;
  if (!broadcast(x.shape(), value.shape(), common) || common != x.shape()) {
    throw ShapeError(fmt::format("{}: {} can't take a value of {}", name, to_string(x.type()), to_string(value.type())),
                     where, "the value must broadcast to the tensor's shape");
  }
  if (is_floating(value.dtype()) && !is_floating(x.dtype())) {
    throw DTypeError(fmt::format("{}: {} can't take a value of {}", name, to_string(x.type()), to_string(value.type())),
                     where, "cast the value: its fractions would be lost");
  }
}

/// Writes the elements of `value` (of x's type, or broadcast to it) to x's storage.
void write(const Tensor& x, Tensor value, Location where) {
  TensorBody& body = *x.body();
  launches::synchronize();  // launches that read the old elements must finish first
  if (value.body()->storage == body.storage) {
    const NoGrad guard;
    value = copy(value, where);  // it may read what has just been written
  }
  make_ready(body);
  make_ready(*value.body());
  const TensorBody& source = *value.body();
  const Operand from{source.data, &source.type, &source.strides, source.contiguous};
  const Operand to{body.data, &body.type, &body.strides, body.contiguous};
  kernels::StridedCall bound;
  kernels::bind({&op::copy, &from, 1, nullptr, to}, bound);
  bound.run(2, nullptr);
  ++body.storage->version;
  body.storage->packing.store(0, std::memory_order_relaxed);
  body.storage->written = where;
}

/// Throws unless the tape can follow the update.
void check_recordable(const char* name, const Tensor& x, Location where) {
  const TensorBody& body = *x.body();
  if (body.tape && body.tape->op == nullptr && body.tape->custom == nullptr) {
    throw Error(fmt::format("{}: {} is a tensor that gradients are asked for", name, to_string(x.type())), where,
                "update a copy() of it, or update it under no_grad()");
  }
  const Tracer* const tracer = thread_context.tracer();
  if (tracer != nullptr ? tracer->has_views(x) : body.storage->viewed) {
    throw Error(fmt::format("{}: {} is a view or has views, and gradients flow through it", name, to_string(x.type())),
                where, "build the new tensor with slice_update() or where(), or update it under no_grad()");
  }
}

Tensor update(const char* name, const Tensor& x, const Tensor& value, Compute compute, Location where) {
  check(name, x, value, where);
  Tracer* const tracer = thread_context.tracer();
  const bool recorded = thread_context.grad_enabled && (x.requires_grad() || value.requires_grad());
  if (recorded) {
    check_recordable(name, x, where);
  }
  if (tracer != nullptr) {
    // A copy, because the rule of the update may read the old value of x.
    const Tensor before = autograd::alias_with_tape(x);
    tracer->update(name, x, compute(recorded ? copy(before, where) : before, value, where), where);
    return x;
  }
  if (x.is_traced() || value.is_traced()) {
    throw CaptureError(fmt::format("{}: an operand belongs to a graph whose capture has ended", name), where,
                       "return it from the captured function instead of keeping it");
  }
  if (repeats(*x.body())) {
    throw ShapeError(fmt::format("{}: elements of {} share memory (it was expanded)", name, to_string(x.type())), where,
                     "copy() it first");
  }
  if (!recorded) {
    const NoGrad guard;
    write(x, compute(x, value, where), where);
    return x;
  }
  const Tensor result = compute(copy(autograd::alias_with_tape(x), where), value, where);
  write(x, detached_alias(result), where);
  autograd::replace_tape(x, result);
  return x;
}

/// `result`, cast and broadcast to x's type.
Tensor like(const Tensor& result, const Tensor& x, Location where) {
  const Tensor typed = cast(result, x.dtype(), where);
  return typed.shape() == x.shape() ? typed : expand(typed, x.shape(), where);
}

template <Tensor (*function)(const Tensor&, const Tensor&, Location)>
Tensor in_x(const Tensor& x, const Tensor& value, Location where) {
  return like(function(x, value, where), x, where);
}

}  // namespace

Tensor copy_(const Tensor& x, const Tensor& value, Location where) {
  return update(
      "copy_", x, value, [](const Tensor& to, const Tensor& from, Location at) { return like(from, to, at); }, where);
}
Tensor fill_(const Tensor& x, double value, Location where) {
  return copy_(x, full_like(x, value, Shape{}, where), where);
}
Tensor zero_(const Tensor& x, Location where) { return fill_(x, 0, where); }
Tensor add_(const Tensor& x, const Tensor& value, Location where) { return update("add_", x, value, in_x<add>, where); }
Tensor sub_(const Tensor& x, const Tensor& value, Location where) { return update("sub_", x, value, in_x<sub>, where); }
Tensor mul_(const Tensor& x, const Tensor& value, Location where) { return update("mul_", x, value, in_x<mul>, where); }
Tensor div_(const Tensor& x, const Tensor& value, Location where) {
  if (x.defined() && !is_floating(x.dtype())) {
    throw DTypeError(fmt::format("div_: a quotient doesn't fit into {}", to_string(x.type())), where,
                     "cast it to f32 first");
  }
  return update("div_", x, value, in_x<div>, where);
}

std::uint32_t version_of(const Tensor& x) { return x.body()->storage ? x.body()->storage->version : 0; }

}  // namespace diptych
