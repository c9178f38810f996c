#include "framework/core/variable.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/graph/capture.h"
#include "framework/ops/elementwise.h"

namespace diptych {

void destroy(VariableState* state) noexcept { delete state; }

Variable::Variable(const Tensor& initial, std::string name)
    : state_(Reference<VariableState>::adopt(new VariableState{{}, detached_alias(initial), std::move(name)})) {
  if (initial.is_traced() || thread_context.capture != nullptr) {
    throw CaptureError(fmt::format("variable '{}' was created inside a captured function", state_->name) +
                       "; create variables before the function that is captured");
  }
  if (!state_->value.is_contiguous()) {  // graphs and optimizers take the elements of a variable as dense
    const NoGrad no_tape;
    state_->value = copy(state_->value);
  }
}

Tensor Variable::value() const {
  internal_check(defined(), "the variable is defined");
  graph::Capture* const capture = thread_context.capture;
  Tensor current = capture != nullptr ? capture->read(*this) : state_->value;
  note(current);
  return current;
}

void Variable::note(const Tensor& current) const {
  std::vector<VariableRead>* reads = thread_context.variable_reads;
  if (reads == nullptr) [[likely]] {
    return;
  }
  const bool known =
      std::any_of(reads->begin(), reads->end(), [&](const auto& read) { return read.variable == *this; });
  if (!known) {
    reads->push_back({*this, current});
  }
}

void Variable::assign(const Tensor& value, Location where) {
  const TensorType mine = type();
  if (value.shape() != mine.shape) {
    throw ShapeError(fmt::format("assign: variable '{}' is {}, the new value is {}", name(), to_string(mine),
                                 to_string(value.type())),
                     where, "a variable keeps its shape; make a new one");
  }
  if (value.dtype() != mine.dtype) {
    throw DTypeError(fmt::format("assign: variable '{}' is {}, the new value is {}", name(), to_string(mine),
                                 to_string(value.type())),
                     where, "cast the new value");
  }
  if (thread_context.variable_reads != nullptr) [[unlikely]] {
    this->value();  // the one before the assignment
  }
  Tensor stored = value.requires_grad() ? detached_alias(value) : value;
  if (graph::Capture* capture = thread_context.capture) {
    capture->assign(*this, stored, where);
  } else if (stored.is_traced()) {
    throw CaptureError(
        fmt::format("assign: the new value of variable '{}' belongs to a graph whose capture has ended", name()), where,
        "return it from the captured function instead of keeping it");
  } else {
    if (!stored.is_contiguous()) {
      const NoGrad no_tape;
      stored = copy(stored, where);
    }
    state_->value = std::move(stored);
  }
}

Tensor Variable::exchange(const Tensor& value) const {
  if (graph::Capture* capture = thread_context.capture) {
    Tensor previous = capture->read(*this);
    capture->write(*this, value);
    return previous;
  }
  Tensor previous = state_->value;
  state_->value = value;
  return previous;
}

VariableReads::VariableReads() : outer_(thread_context.variable_reads) { thread_context.variable_reads = &reads_; }
VariableReads::~VariableReads() {
  thread_context.variable_reads = outer_;
  if (outer_ == nullptr) {
    return;
  }
  for (const VariableRead& read : reads_) {
    const bool known =
        std::any_of(outer_->begin(), outer_->end(), [&](const auto& other) { return other.variable == read.variable; });
    if (!known) {
      outer_->push_back(read);
    }
  }
}

Rebind::Rebind(std::span<const VariableRead> reads) {
  for (const VariableRead& read : reads) {
    previous_.push_back({read.variable, read.variable.exchange(read.value)});
  }
}
Rebind::~Rebind() {
  for (const VariableRead& before : previous_) {
    before.variable.exchange(before.value);
  }
}

}  // namespace diptych
