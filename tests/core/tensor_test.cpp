#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"

namespace diptych {
namespace {

using ::testing::ElementsAre;

TEST(Tensor, HoldsEveryElementType) {
  EXPECT_THAT(Tensor::from({true, false}, {2}).to_vector<bool>(), ElementsAre(true, false));
  EXPECT_THAT(Tensor::from({std::int32_t{-7}}, {1}).to_vector<std::int32_t>(), ElementsAre(-7));
  EXPECT_EQ(Tensor::from({std::int64_t{1} << 40}, {}).item(), std::ldexp(1.0, 40));
  EXPECT_EQ(to_string(Tensor::from({1.5F, 0.1F}, {1, 2})), "f32[1,2] {1.5, 0.1}");
  EXPECT_EQ(to_string(zeros({2, 0}, DType::boolean).type()), "bool[2,0]");
}

TEST(Tensor, TheTextOfANaNHasNoSign) {
  EXPECT_EQ(to_string(Tensor::from({NAN, -NAN, -INFINITY, -0.0F}, {4})), "f32[4] {nan, nan, -inf, -0}");
  EXPECT_EQ(to_string(Tensor::from({-static_cast<double>(NAN)}, {})), "f64[] {nan}");
}

TEST(Tensor, CopiesShareElements) {
  const Tensor a = full({3}, 1);
  const Tensor b = a;
  EXPECT_EQ(a.data<float>(), b.data<float>());
  EXPECT_EQ(reshape(a, {3, 1}).data<float>(), a.data<float>());
  EXPECT_NE(copy(a).data<float>(), a.data<float>());
}

TEST(Tensor, BitwiseEqualityIsStrictButForNaN) {
  EXPECT_FALSE(bitwise_equal(full({2}, 0.0), full({2}, -0.0)));
  EXPECT_TRUE(bitwise_equal(full({2}, NAN), neg(full({2}, NAN))));
  EXPECT_FALSE(bitwise_equal(full({2}, NAN), full({2}, 1)));
  EXPECT_FALSE(bitwise_equal(full({2}, 1), full({2}, 1, DType::float64)));
  EXPECT_FALSE(bitwise_equal(full({2}, 1), full({1, 2}, 1)));
}

TEST(Variable, KeepsItsType) {
  Variable weight(zeros({2}), "weight");
  weight.assign(ones({2}));
  EXPECT_EQ(sum(weight).item(), 2);
  EXPECT_THROW(weight.assign(ones({3})), ShapeError);
  EXPECT_THROW(weight.assign(ones({2}, DType::float64)), DTypeError);
  try {
    weight.assign(ones({3}));
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("variable 'weight' is f32[2], the new value is f32[3]"));
  }
}

TEST(Variable, StridedValuesAreTheSameInBothModes) {
  const Tensor x = Rng(1).normal({3, 3});
  Variable eager(zeros({3, 3}), "w");
  Variable captured(zeros({3, 3}), "w");
  eager.assign(transpose(x));
  auto assign = jit([&](const Tensor& t) {
    captured.assign(transpose(t));
    return sum(t);
  });
  assign(x);
  EXPECT_TRUE(bitwise_equal(matmul(eager, eager), matmul(captured, captured)));
}

TEST(Registry, EveryOpIsComplete) {
  EXPECT_GE(registry().size(), 40U);
  std::string_view previous;
  for (const OpDef* op : registry()) {
    EXPECT_LT(previous, op->name) << "sorted, each once";
    previous = op->name;
    EXPECT_EQ(find_op(op->name), op);
    EXPECT_STRNE(op->doc, "") << op->name;
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->kernel, nullptr) << op->name;
    ASSERT_NE(op->samples, nullptr) << op->name;
    EXPECT_FALSE(op->samples().empty()) << op->name;
  }
  EXPECT_EQ(find_op("no such op"), nullptr);
}

TEST(Registry, CostsFollowTheFormulas) {
  const OpDef& matmul_op = *find_op("matmul");
  const TensorType a{DType::float32, {3, 4}};
  const TensorType b{DType::float32, {4, 5}};
  const TensorType c{DType::float32, {3, 5}};
  const std::array inputs{&a, &b};
  const Cost cost = cost_of(matmul_op, inputs, nullptr, c);
  EXPECT_EQ(cost.flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(cost.bytes, 4 * (12 + 20 + 15));
}

}  // namespace
}  // namespace diptych
