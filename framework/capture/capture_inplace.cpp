// Updates in place while a graph is captured. The graph has no memory to write to: an update makes a new value, and
// tensors that would share the updated tensor's storage in eager read from the new value on.
//
//   x: %1                            x: %1 -> %4
//   v = slice(x): %2                 v: %2 -> slice(%4), derived when v is read
//   copy_(v, y)              =>      %4 = slice_update(%1, y)

#include <algorithm>

#include <fmt/format.h>

#include "framework/capture/capture.h"
#include "framework/core/context.h"
#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/dispatch/tape.h"
#include "framework/ops/elementwise.h"

namespace diptych::graph {

const Node* Capture::producer(ValueId value) const {
  const auto found = std::find_if(graph_.nodes.rbegin(), graph_.nodes.rend(),
                                  [&](const Node& node) { return node.output() == value; });
  return found != graph_.nodes.rend() ? &*found : nullptr;
}

Strides Capture::strides_of(ValueId value) const {
  if (const auto given = strides_.find(value); given != strides_.end()) {
    return given->second;
  }
  for (const Input& input : graph_.inputs) {
    if (input.value == value && input.tensor.defined()) {
      return input.tensor.strides();
    }
  }
  Layout layout;
  const Node* node = producer(value);
  return node != nullptr && is_view_in_eager(*node, layout) ? layout.strides
                                                            : contiguous_strides(graph_.types[value].shape);
}

bool Capture::is_view_in_eager(const Node& node, Layout& layout) const {
  const OpDef& op = *node.op;
  return op.view != nullptr && op.view(graph_.types[node.inputs[0]], strides_of(node.inputs[0]),
                                       graph_.types[node.output()], node.attributes.get(), layout);
}

ValueId Capture::last_of(ValueId value) const {
  for (auto next = replaced_.find(value); next != replaced_.end(); next = replaced_.find(value)) {
    value = next->second;
  }
  return value;
}

ValueId Capture::storage_of(ValueId value) const {
  for (;;) {
    if (const auto first = origin_.find(value); first != origin_.end()) {
      value = first->second;
    }
    Layout layout;
    const Node* node = producer(value);
    if (node == nullptr || !is_view_in_eager(*node, layout)) {
      return value;
    }
    value = node->inputs[0];
  }
}

Updates Capture::updates_of(const TensorBody& x) const {
  if (updates_.empty() || x.trace_serial != serial_) {
    return {};
  }
  const auto found = updates_.find(storage_of(x.trace_value));
  return found != updates_.end() ? found->second : Updates{};
}

ValueId Capture::current(ValueId value) {
  value = last_of(value);
  const Node* node = producer(value);
  Layout layout;
  if (node == nullptr || !is_view_in_eager(*node, layout)) {
    return value;
  }
  const ValueId base = node->inputs[0];
  Node view = *node;  // a copy, because the list grows
  view.inputs[0] = current(base);
  if (view.inputs[0] == base) {
    return value;
  }
  view.outputs = {graph_.new_value(graph_.types[value])};
  replaced_[value] = view.output();
  graph_.nodes.push_back(std::move(view));
  return replaced_[value];
}

void Capture::replace(const char* name, ValueId value, ValueId with, Location where) {
  const Node* node = producer(last_of(value));
  Layout layout;
  if (node == nullptr || !is_view_in_eager(*node, layout)) {
    const ValueId storage = storage_of(value);
    replaced_[last_of(value)] = with;
    origin_[with] = storage;
    Updates& updates = updates_[storage];
    updates = {updates.version + 1, where};
    return;
  }
  const bool repeats = graph_.types[node->output()].shape.product() > graph_.types[node->inputs[0]].shape.product();
  if (repeats) {
    throw ShapeError(
        fmt::format("{}: elements of {} share memory ({})", name, to_string(graph_.types[value]), node->op->name),
        where, "copy() it first");
  }
  const Node view = *node;  // a copy, because the list grows
  const Tensor base = traced(current(view.inputs[0]));
  const Tensor written = view.op->write_back(base, traced(with), view.attributes.get());
  replace(name, view.inputs[0], value_of(written, name, where), where);
}

bool Capture::has_views(const Tensor& x) const {
  if (!x.is_traced() || x.body()->trace_serial != serial_) {
    return false;
  }
  const ValueId value = last_of(x.body()->trace_value);
  Layout layout;
  return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
    return (node.output() == value || (!node.inputs.empty() && last_of(node.inputs[0]) == value)) &&
           is_view_in_eager(node, layout);
  });
}

void Capture::update(const char* name, const Tensor& x, const Tensor& value, Location where) {
  const TensorBody& body = *x.body();
  const ValueId root = body.is_traced && body.trace_serial == serial_ ? storage_of(body.trace_value) : 0;
  const bool given =
      std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                  [&](const Input& input) { return input.value == root && input.kind != InputKind::state; }) ||
      std::any_of(captured_.begin(), captured_.end(), [&](const auto& entry) { return entry.second == root; });
  if (!body.is_traced || body.trace_serial != serial_ || given) {
    throw CaptureError(fmt::format("{}: {} comes from outside the captured function, and a replay doesn't write to it",
                                   name, to_string(x.type())),
                       where, "update a copy() of it, or keep it in a Variable");
  }
  // A separate value: `value` may be an operand, which can be updated later. To the tape it is `value` itself, as in
  // eager: one node more, and gradients would be summed in another order.
  const Tensor fresh = [&] {
    const NoGrad guard;
    return copy(value, where);
  }();
  replace(name, body.trace_value, value_of(fresh, name, where), where);
  if (thread_context.grad_enabled && (x.requires_grad() || value.requires_grad())) {
    autograd::replace_tape(x, value);  // with none, if nothing is left of what had one
  }
}

}  // namespace diptych::graph
