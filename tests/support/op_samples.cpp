#include "tests/support/op_samples.h"

#include <fmt/format.h>

namespace diptych::testing {

std::string OpCase::name() const {
  std::string text = fmt::format("{}_{}", op->name, index);
  for (const SampleInput& input : sample.inputs) {
    text += fmt::format("_{}{}", name_of(input.type.dtype), input.transposed ? "t" : "");
    for (const std::int64_t length : input.type.shape) {
      text += fmt::format("x{}", length);
    }
  }
  return text;
}

std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> cases;
  for (const OpDef* op : registry()) {
    std::size_t index = 0;
    for (Sample& sample : op->samples()) {
      cases.push_back({op, index++, std::move(sample)});
    }
  }
  return cases;
}

std::vector<Tensor> make_inputs(const Sample& sample, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Tensor> tensors;
  for (const SampleInput& input : sample.inputs) {
    Shape shape = input.type.shape;
    const int rank = shape.rank();
    if (input.transposed) {
      std::swap(shape[rank - 1], shape[rank - 2]);
    }
    Tensor tensor =
        is_floating(input.type.dtype)
            ? rng.uniform(shape, input.low, input.high, input.type.dtype)
            : cast(rng.integers(shape, static_cast<std::int64_t>(input.low), static_cast<std::int64_t>(input.high)),
                   input.type.dtype);
    tensors.push_back(input.transposed ? transpose(tensor) : tensor);
  }
  return tensors;
}

Tensor call(const OpDef& op, std::span<const Tensor> inputs, const AttributeValue& attributes) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) {
    pointers.push_back(&input);
  }
  return apply(op, pointers, attributes.get(), Location::current());
}

}  // namespace diptych::testing
