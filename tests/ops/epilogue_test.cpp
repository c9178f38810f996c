// What kernels promise to epilogues (KernelCall::epilogue): every element of the result is handed over once, with its
// last value, whatever the shape, the number of threads, and what multiplies.

#include <cmath>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/tensor_body.h"
#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "framework/ops/window_ops.h"
#include "tests/support/with_gemm.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

/// Copies what it is handed, and counts.
class Witness {
 public:
  Witness(const TensorType& type, int column_axes, const std::byte* result)
      : size_(size_of(type.dtype)), result_(result), seen_(bytes_of(type)), visits_(elements_of(type)) {
    for (int axis = type.shape.rank() - column_axes; axis < type.shape.rank(); ++axis) {
      columns_ *= type.shape[axis];
    }
  }

  Epilogue epilogue() const {
    return {[](const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
              const_cast<Witness*>(static_cast<const Witness*>(self))->see(row, rows, column, columns);
            },
            this};
  }
  const std::vector<std::byte>& seen() const { return seen_; }
  const std::vector<int>& visits() const { return visits_; }

 private:
  static std::size_t elements_of(const TensorType& type) { return static_cast<std::size_t>(type.shape.product()); }

  void see(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ASSERT_LE(column + columns, columns_);
    for (std::int64_t r = row; r < row + rows; ++r) {
      for (std::int64_t c = column; c < column + columns; ++c) {
        const auto at = static_cast<std::size_t>(r * columns_ + c);
        ASSERT_LT(at, visits_.size());
        ++visits_[at];
        std::copy_n(result_ + at * size_, size_, seen_.begin() + static_cast<std::ptrdiff_t>(at * size_));
      }
    }
  }

  std::size_t size_;
  const std::byte* result_;
  std::int64_t columns_ = 1;
  std::mutex mutex_;
  std::vector<std::byte> seen_;
  std::vector<int> visits_;
};

void expect_each_once(const OpDef& op, const std::vector<Tensor>& inputs, const void* attributes) {
  std::vector<const TensorType*> types;
  std::vector<Operand> operands;
  for (const Tensor& input : inputs) {
    types.push_back(&input.type());
    operands.push_back(
        {input.body()->data, &input.type(), &input.strides(), is_contiguous(input.shape(), input.strides())});
  }
  TensorType type;
  op.infer({op, types, attributes, {}}, type);
  const Strides strides = contiguous_strides(type.shape);
  std::vector<std::byte> result(bytes_of(type));
  Witness witness(type, op.epilogue_axes, result.data());
  const Epilogue epilogue = witness.epilogue();
  KernelCall call{
      &op, operands.data(), static_cast<int>(operands.size()), attributes, {result.data(), &type, &strides, true}};
  call.epilogue = &epilogue;
  op.kernel(call);
  EXPECT_THAT(witness.visits(), ::testing::Each(1)) << op.name << " " << to_string(type);
  EXPECT_EQ(witness.seen(), result) << op.name << " " << to_string(type);
}

template <class Fn>
void in_every_way(const Fn& fn) {
  for (const int threads : {1, 3}) {
    for (const kernels::Gemm gemm : {kernels::Gemm::tiles, kernels::Gemm::openblas}) {
      const WithThreads with(threads, true);
      const WithGemm by(gemm);
      SCOPED_TRACE(std::to_string(threads) + " threads, " +
                   std::string(kernels::kGemmNames[static_cast<std::size_t>(gemm)]));
      fn();
    }
  }
}

TEST(Epilogue, SamplesOfEveryOpThatTakesOne) {
  std::size_t ops = 0;
  for (const OpDef* op : registry()) {
    if (op->epilogue_axes == 0) {
      continue;
    }
    ++ops;
    for (const Sample& sample : op->samples()) {
      if (sample.inputs[0].type.dtype == DType::bfloat16) {
        continue;  // its result is rounded after the kernel
      }
      std::vector<Tensor> inputs;
      for (const SampleInput& input : sample.inputs) {
        Shape shape = input.type.shape;
        if (input.transposed) {
          std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
        }
        const Tensor drawn = Rng(inputs.size()).normal(shape, 0, 1, input.type.dtype);
        inputs.push_back(input.transposed ? transpose(drawn) : drawn);
      }
      in_every_way([&] { expect_each_once(*op, inputs, sample.attributes.get()); });
    }
  }
  EXPECT_GE(ops, 3U);
}

TEST(Epilogue, ProductsOfEveryForm) {
  const OpDef& op = *find_op("linear");
  for (const auto& [m, n, k] : {std::tuple{1, 300, 700},
                                {5, 1, 300},
                                {130, 290, 260},
                                {300, 600, 513},
                                {64, 10, 128},
                                {9, 49, 513},
                                {16, 17, 0},
                                {200, 256, 256}}) {
    const Tensor x = Rng(1).normal({m, k});
    const Tensor w = Rng(2).normal({n, k});
    const Tensor bias = Rng(3).normal({n});
    in_every_way([&] {
      expect_each_once(op, {x, transpose(w)}, nullptr);
      expect_each_once(op, {x, copy(transpose(w)), bias}, nullptr);
    });
  }
  in_every_way([&] {
    expect_each_once(*find_op("matmul"), {Rng(1).normal({3, 2, 40, 70}), Rng(2).normal({2, 70, 90})}, nullptr);
  });
}

TEST(Epilogue, ConvolutionsOfEveryForm) {
  const OpDef& op = *find_op("conv2d");
  const auto run = [&](const Shape& x, const Shape& weight, std::int64_t stride, std::int64_t groups,
                       std::int64_t padding = 1) {
    const ops::ConvolutionAttributes attributes{{stride, stride, padding, padding, padding, padding, 1, 1}, groups};
    in_every_way([&] { expect_each_once(op, {Rng(1).normal(x), Rng(2).normal(weight)}, &attributes); });
    if (padding == 0) {
      in_every_way([&] {
        expect_each_once(op, {Rng(1).normal(x), Rng(2).normal(weight), Rng(3).normal({weight[0]})}, &attributes);
      });
    }
  };
  run({2, 16, 30, 30}, {24, 16, 3, 3}, 1, 1);
  run({5, 40, 7, 7}, {70, 40, 3, 3}, 1, 1);
  run({1, 64, 16, 80}, {1100, 64, 1, 1}, 1, 1);
  run({2, 32, 28, 28}, {64, 16, 3, 3}, 2, 2);
  run({3, 8, 20, 20}, {8, 1, 3, 3}, 1, 8);
  run({1, 3, 5, 700}, {6, 3, 3, 3}, 1, 1);
  run({5, 40, 14, 14}, {24, 20, 1, 1}, 1, 2, 0);
  run({1, 30, 40, 33}, {300, 30, 1, 1}, 1, 1, 0);
}

}  // namespace
}  // namespace diptych::testing
