// Kernels whose result may lie where an input does (OpDef::overwrites) give the same bits there.

#include <cstring>

#include <gtest/gtest.h>

#include "framework/core/tensor_body.h"
#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "tests/support/op_samples.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

/// The result in place of input `at`, or of none (-1).
std::vector<std::byte> result_of(const OpDef& op, const std::vector<Tensor>& inputs, const void* attributes, int at) {
  std::vector<Tensor> copies;  // dense, to be written to
  std::vector<const TensorType*> types;
  std::vector<Operand> operands;
  for (const Tensor& input : inputs) {
    copies.push_back(copy(input));
  }
  for (const Tensor& input : copies) {
    types.push_back(&input.type());
    operands.push_back({input.body()->data, &input.type(), &input.strides(), true});
  }
  TensorType type;
  op.infer({op, types, attributes, {}}, type);
  const Strides strides = contiguous_strides(type.shape);
  std::vector<std::byte> memory(bytes_of(type));
  void* const place = at < 0 ? memory.data() : operands[static_cast<std::size_t>(at)].data;
  op.kernel({&op, operands.data(), static_cast<int>(operands.size()), attributes, {place, &type, &strides, true}});
  std::memcpy(memory.data(), place, memory.size());
  return memory;
}

TEST(Overwrite, SamplesOfEveryOpThatMay) {
  std::size_t compared = 0;
  for (const OpDef* op : registry()) {
    if (op->overwrites == 0) {
      continue;
    }
    for (const Sample& sample : op->samples()) {
      const std::vector<Tensor> inputs = make_inputs(sample);
      if (inputs[0].numel() == 0) {
        continue;
      }
      for (const int threads : {1, 3}) {
        const WithThreads with(threads, true);
        const std::vector<std::byte> apart = result_of(*op, inputs, sample.attributes.get(), -1);
        for (int at = 0; at < static_cast<int>(inputs.size()); ++at) {
          const Tensor& input = inputs[static_cast<std::size_t>(at)];
          if (((op->overwrites >> at) & 1U) != 0 && bytes_of(input.type()) == apart.size()) {
            EXPECT_EQ(result_of(*op, inputs, sample.attributes.get(), at), apart)
                << op->name << " over input " << at << ", " << to_string(input.type()) << " {"
                << sample.attributes.print() << "}";
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 100U);
}

}  // namespace
}  // namespace diptych::testing
