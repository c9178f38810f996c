#include "framework/ops/debug.h"

#include <cmath>
#include <iostream>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "framework/core/tensor_body.h"
#include "framework/dispatch/element_error.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/define.h"

namespace diptych::debug {
namespace {

using ops::LabelAttributes;

struct Output {
  std::mutex mutex;
  std::ostream* stream = nullptr;
};
Output& output() {
  static Output instance;
  return instance;
}

const LabelAttributes& attributes_of(const KernelCall& call) {
  return *static_cast<const LabelAttributes*>(call.attributes);
}

/// The operand as a non-owning tensor.
Tensor borrowed(const Operand& operand) {
  TensorBody* body = new_body();
  body->type = *operand.type;
  body->strides = *operand.strides;
  body->numel = operand.type->shape.product();
  body->contiguous = operand.contiguous;
  body->data = operand.data;
  return Tensor::adopt(body);
}

void infer_nothing(const InferCall& /*call*/, TensorType& output_type) { output_type = {DType::uint8, {0}}; }

void print_kernel(const KernelCall& call) {
  const std::string text =
      fmt::format("{}: {}\n", attributes_of(call).label.c_str(), to_string(borrowed(call.inputs[0])));
  const std::lock_guard lock(output().mutex);
  std::ostream& stream = output().stream != nullptr ? *output().stream : std::cout;
  stream << text << std::flush;
}

std::string index_text(std::int64_t index, const Shape& shape) {
  Dims position = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return to_string(position);
}

void check_finite_kernel(const KernelCall& call) {
  const Tensor x = borrowed(call.inputs[0]);
  const LabelAttributes& attributes = attributes_of(call);
  visit(x.dtype(), [&]<class T>() {
    if constexpr (is_floating(dtype_of<T>)) {
      const auto* elements = static_cast<const T*>(x.body()->data);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const auto value = static_cast<double>(elements[element_offset(*x.body(), i)]);
        if (!std::isfinite(value)) {
          throw ElementError(fmt::format("check_finite: '{}' has {} at {} of {}", attributes.label.c_str(), value,
                                         index_text(i, x.shape()), to_string(x.type())),
                             "check what it is computed from, too");
        }
      }
    }
  });
}

const Op kPrint{{.name = "debug.print",
                 .doc = "Writes x to the debug stream",
                 .inputs = 1,
                 .attributes = &attribute_type<LabelAttributes>,
                 .infer = infer_nothing,
                 .kernel = print_kernel,
                 .stores = true,
                 .effect = true,
                 .samples = nullptr,
                 .family = "debug"}};
const Op kCheckFinite{{.name = "debug.check_finite",
                       .doc = "Fails if x has an element that is NaN or infinite",
                       .inputs = 1,
                       .attributes = &attribute_type<LabelAttributes>,
                       .infer = infer_nothing,
                       .kernel = check_finite_kernel,
                       .stores = true,
                       .can_fail = true,
                       .effect = true,
                       .samples = nullptr,
                       .family = "debug"}};

thread_local bool is_unobserved = false;

Tensor look(const Op& op, std::string_view label, const Tensor& x, Location where) {
  if (is_unobserved) {
    return x;
  }
  const LabelAttributes attributes{InternedText(label)};
  apply_op(op, &attributes, where, x);
  return x;
}

}  // namespace

Tensor print(std::string_view label, const Tensor& x, Location where) { return look(kPrint, label, x, where); }

Tensor check_finite(const Tensor& x, std::string_view name, Location where) {
  return look(kCheckFinite, name, x, where);
}

Unobserved::Unobserved() : before_(std::exchange(is_unobserved, true)) {}
Unobserved::~Unobserved() { is_unobserved = before_; }

void set_stream(std::ostream* stream) {
  const std::lock_guard lock(output().mutex);
  output().stream = stream;
}

}  // namespace diptych::debug
