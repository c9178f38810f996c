#include "framework/core/variable.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/tensor_body.h"

namespace diptych {
namespace {

/// Where a thread records reads, and around which other place. A read goes to all of them at once: a destructor that
/// handed it on could find no memory.
struct Recorder {
  std::vector<VariableRead>* reads;
  std::vector<VariableRead>* outer;
};
thread_local std::vector<Recorder> recorders;

std::vector<VariableRead>* outer_of(const std::vector<VariableRead>* reads) {
  const auto found =
      std::find_if(recorders.begin(), recorders.end(), [&](const Recorder& each) { return each.reads == reads; });
  return found == recorders.end() ? nullptr : found->outer;
}

void restore(std::span<const VariableRead> previous) {
  for (const VariableRead& before : previous) {
    before.variable.exchange(before.value);
  }
}

}  // namespace

void destroy(VariableState* state) noexcept { delete state; }

Variable::Variable(const Tensor& initial, std::string name)
    : state_(Reference<VariableState>::adopt(new VariableState{{}, detached_alias(initial), std::move(name)})) {
  if (initial.is_traced() || thread_context.tracer() != nullptr) {
    throw CaptureError(fmt::format("variable '{}' was created inside a captured function", state_->name) +
                       "; create variables before the function that is captured");
  }
  if (!state_->value.is_contiguous()) {  // graphs and optimizers assume that a variable's elements are dense
    state_->value = dense_copy(state_->value);
  }
}

Tensor Variable::value() const {
  internal_check(defined(), "the variable is defined");
  Tracer* const tracer = thread_context.tracer();
  Tensor current = tracer != nullptr ? tracer->read(*this) : state_->value;
  note(current);
  return current;
}

void Variable::note(const Tensor& current) const {
  for (auto* reads = thread_context.variable_reads; reads != nullptr; reads = outer_of(reads)) {
    const bool known =
        std::any_of(reads->begin(), reads->end(), [&](const auto& read) { return read.variable == *this; });
    if (!known) {
      reads->push_back({*this, current});
    }
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
    this->value();  // the value before the assignment
  }
  Tensor stored = value.requires_grad() ? detached_alias(value) : value;
  if (Tracer* const tracer = thread_context.tracer()) {
    tracer->assign(*this, stored, where);
  } else if (stored.is_traced()) {
    throw CaptureError(
        fmt::format("assign: the new value of variable '{}' belongs to a graph whose capture has ended", name()), where,
        "return it from the captured function instead of keeping it");
  } else {
    state_->value = stored.is_contiguous() ? std::move(stored) : dense_copy(stored);
  }
}

Tensor Variable::exchange(const Tensor& value) const {
  if (Tracer* const tracer = thread_context.tracer()) {
    Tensor previous = tracer->read(*this);
    tracer->write(*this, value);
    return previous;
  }
  Tensor previous = state_->value;
  state_->value = value;
  return previous;
}

VariableReads::VariableReads() : outer_(thread_context.variable_reads) {
  recorders.push_back({&reads_, outer_});
  thread_context.variable_reads = &reads_;
}
VariableReads::~VariableReads() {
  thread_context.variable_reads = outer_;
  std::erase_if(recorders, [&](const Recorder& each) { return each.reads == &reads_; });
}

Rebind::Rebind(std::span<const VariableRead> reads) {
  previous_.reserve(reads.size());
  try {
    for (const VariableRead& read : reads) {
      previous_.push_back({read.variable, read.variable.exchange(read.value)});
    }
  } catch (...) {
    restore(previous_);
    throw;
  }
}
Rebind::~Rebind() { restore(previous_); }

}  // namespace diptych
