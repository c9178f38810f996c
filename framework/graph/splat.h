#pragma once

#include <cstring>
#include <optional>

#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"
#include "framework/ops/creation_ops.h"

namespace diptych::graph {

/// The number if all elements of a value are known to be equal (to the bit). `producer(value)`: the node that makes it,
/// or null; `constant(value)`: its tensor, or null.
template <class ProducerOf, class ConstantOf>
std::optional<double> splat_of(ValueId value, const ProducerOf& producer, const ConstantOf& constant) {
  const Node* node = producer(value);
  for (; node != nullptr && node->op->view != nullptr; node = producer(value)) {
    value = node->inputs[0];
  }
  if (node != nullptr && node->op == &op::full) {
    const auto& attributes = node->attributes.as<ops::FullAttributes>();
    return attributes.dtype == DType::float32 ? static_cast<double>(static_cast<float>(attributes.value))
                                              : attributes.value;
  }
  const Tensor* tensor = constant(value);
  if (tensor == nullptr || tensor->numel() == 0) {
    return std::nullopt;
  }
  const TensorBody& body = *tensor->body();
  make_ready(body);
  const std::size_t size = size_of(body.type.dtype);
  for (std::int64_t i = 1; i < body.numel; ++i) {
    if (std::memcmp(body.bytes(), body.bytes() + static_cast<std::size_t>(i) * size, size) != 0) {
      return std::nullopt;
    }
  }
  return visit(body.type.dtype, [&]<class T>() { return static_cast<double>(*static_cast<const T*>(body.data)); });
}

}  // namespace diptych::graph
