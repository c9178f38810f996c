// Errors name the op, both shapes, the caller's line, and what to do.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/message_of.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(Errors, MatmulNamesOpShapesLineAndHint) {
  const Tensor a = zeros({2, 3});
  const Tensor b = zeros({4, 5});
  const Location here = Location::current();
  const std::string message = message_of<ShapeError>([&] { matmul(a, b); });
  EXPECT_THAT(message, AllOf(HasSubstr("matmul: inner dimensions differ (3 vs 4): f32[2,3] x f32[4,5]"),
                             HasSubstr(fmt::format("errors_test.cpp:{}", here.line + 1)),
                             HasSubstr("the columns of the first must be the rows of the second")));
  EXPECT_THAT(message_of<ShapeError>([&] {
                matmul(zeros({2, 3}), zeros({4, 3}));
              }),
              HasSubstr("transpose one of them?"));
}

TEST(Errors, OperatorsNameTheCallersLine) {
  const Tensor a = zeros({2, 3});
  const Tensor b = zeros({4});
  const Location here = Location::current();
  const std::string message = message_of<ShapeError>([&] { a* b; });
  EXPECT_THAT(message, AllOf(HasSubstr("mul: shapes don't broadcast: f32[2,3] x f32[4]"),
                             HasSubstr(fmt::format("errors_test.cpp:{}", here.line + 1)), HasSubstr("align")));
}

TEST(Errors, SameMessageWhileCapturing) {
  const std::string eager = message_of<ShapeError>([] { matmul(zeros({2, 3}), zeros({4, 5})); });
  const std::string graph = message_of<ShapeError>([] {
    auto f = jit([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
    f(zeros({2, 3}), zeros({4, 5}));
  });
  EXPECT_EQ(eager.substr(0, eager.find(", at")), graph.substr(0, graph.find(", at")));
}

TEST(Errors, DTypes) {
  const Tensor flags = ones({2}, DType::boolean);
  EXPECT_THAT(message_of<DTypeError>([&] { neg(flags); }),
              AllOf(HasSubstr("neg"), HasSubstr("bool[2]"), HasSubstr("cast")));
  EXPECT_THAT(message_of<DTypeError>([] { exp(ones({2}, DType::int64)); }), HasSubstr("floating-point"));
  EXPECT_THAT(message_of<DTypeError>([] { where(ones({2}), ones({2}), ones({2})); }), HasSubstr("condition"));
  EXPECT_THAT(message_of<DTypeError>([] { logical_and(ones({2}), ones({2})); }), HasSubstr("bool"));
  EXPECT_THAT(message_of<DTypeError>([] { ones({1}).data<double>(); }), HasSubstr("f32[1]"));
}

TEST(Errors, ViewsAndReductions) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { reshape(x, {4, 2}); }), HasSubstr("number of elements differs"));
  EXPECT_THAT(message_of<ShapeError>([&] { reshape(x, {-1, 4}); }), HasSubstr("no length fits the -1"));
  EXPECT_THAT(message_of<ShapeError>([&] { reshape(x, {-1, -1}); }), HasSubstr("one length at most"));
  EXPECT_THAT(message_of<ShapeError>([&] { permute(x, {0, 0}); }), HasSubstr("no permutation"));
  EXPECT_THAT(message_of<ShapeError>([&] { expand(x, {2, 4}); }), HasSubstr("only axes of length 1"));
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x, {2}); }), AllOf(HasSubstr("axis 2"), HasSubstr("from -2 to 1")));
  EXPECT_THAT(message_of<ShapeError>([&] { max(zeros({0})); }), HasSubstr("no element to take"));
  EXPECT_THAT(message_of<ShapeError>([&] { squeeze(x, 0); }), HasSubstr("has not length 1"));
  EXPECT_THAT(message_of<ShapeError>([&] { slice(x, 5, 0, 1); }), HasSubstr("axis 5"));
  EXPECT_THAT(message_of<ShapeError>([] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); }), HasSubstr("8 axes at most"));
}

TEST(Errors, ReadsThatMakeNoSense) {
  EXPECT_THAT(message_of<ShapeError>([] { zeros({2}).item(); }), HasSubstr("has 2 elements, not one"));
  EXPECT_THAT(message_of<ShapeError>([] { transpose(zeros({2, 3})).data<float>(); }), HasSubstr("contiguous()"));
  EXPECT_THAT(message_of<ShapeError>([] { Tensor::from({1.0F}, {2}); }), HasSubstr("1 values for shape [2]"));
  EXPECT_THAT(message_of<Error>([] { add(Tensor(), zeros({1})); }), HasSubstr("input 0 is undefined"));
  EXPECT_THAT(message_of<Error>([] { Tensor().numel(); }), HasSubstr("undefined tensor"));
}

TEST(Errors, LabelsOutOfRangeAreFoundWhenTheyAreSeen) {
  const Tensor labels = Tensor::from({std::int64_t{0}, std::int64_t{12}}, {2});
  EXPECT_THAT(message_of<Error>([&] {
                cross_entropy(zeros({2, 10}), labels);
              }),
              AllOf(HasSubstr("index 12 at position 1"), HasSubstr("[0, 10)")));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(zeros({3, 10}), labels); }), HasSubstr("labels i64[2]"));
}

}  // namespace
}  // namespace diptych
