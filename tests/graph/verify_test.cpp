#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/op.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::f32;
using diptych::testing::message_of;
using ::testing::HasSubstr;

/// %0 argument, %1 state, %2 captured, %3 constant, %4 = %0 + %3, %5 = sum(%4); %1 <- %4; return %5.
class Verify : public ::testing::Test {
 protected:
  Verify() {
    graph_ = parse(
        "graph \"g\"(%0: f32[2] argument \"x\", %1: f32[2] state \"v\", %2: f32[2] captured \"c\") {\n"
        "  const %3: f32[2] = {1, 2}\n"
        "  %4: f32[2] = add(%0, %3)\n"
        "  %5: f32[] = sum(%4) {axes=[0], keepdims=false}\n"
        "  update %1 <- %4\n"
        "  return %5\n}");
    graph_.inputs[1].variable = Variable(f32({0, 0}, {2}), "v");
    graph_.inputs[2].tensor = f32({0, 0}, {2});
  }

  void expect_malformed(const std::string& why) {
    const std::string message = message_of<InternalError>([&] { verify(graph_); });
    EXPECT_THAT(message, HasSubstr(why));
    EXPECT_THAT(message, HasSubstr("\"g\"")) << "the graph is named";
  }

  Graph graph_;
};

TEST_F(Verify, TakesAGoodGraph) { EXPECT_NO_THROW(verify(graph_)); }
TEST_F(Verify, TakesAnEmptyGraph) { EXPECT_NO_THROW(verify(Graph())); }

TEST_F(Verify, FindsAUseBeforeTheDefinition) {
  std::swap(graph_.nodes[0], graph_.nodes[1]);
  expect_malformed("before sum uses it");
}
TEST_F(Verify, FindsANodeThatReadsItself) {
  graph_.nodes[0].inputs[1] = graph_.nodes[0].output();
  expect_malformed("before add uses it");
}
TEST_F(Verify, FindsAValueWithoutDefinition) {
  graph_.nodes[0].inputs[0] = graph_.new_value({DType::float32, {2}});
  expect_malformed("before add uses it");
}
TEST_F(Verify, FindsAValueOutOfRange) {
  graph_.nodes[0].inputs[0] = 99;
  expect_malformed("before add uses it");
}
TEST_F(Verify, FindsASecondDefinitionByANode) {
  graph_.nodes[0].outputs = {0};
  expect_malformed("defined once (%0)");
}
TEST_F(Verify, FindsASecondDefinitionByAConstant) {
  graph_.constants.push_back(graph_.constants[0]);
  expect_malformed("defined once (%3)");
}
TEST_F(Verify, FindsTwoInputsOfOneValue) {
  graph_.inputs[1].value = 0;
  graph_.inputs[1].variable = Variable(f32({0, 0}, {2}));
  expect_malformed("defined once (%0)");
}
TEST_F(Verify, FindsAnOutputWithoutType) {
  graph_.nodes[1].outputs = {77};
  expect_malformed("has a type");
}
TEST_F(Verify, FindsAWrongShape) {
  graph_.types[5].shape = Shape{1};
  expect_malformed("sum has type f32[1], inferred f32[]");
}
TEST_F(Verify, FindsAWrongDType) {
  graph_.types[4].dtype = DType::float64;
  expect_malformed("add has type f64[2], inferred f32[2]");
}
TEST_F(Verify, FindsInputsThatTheOpRefuses) {
  graph_.types[0].shape = Shape{3};
  expect_malformed("don't broadcast");
}
TEST_F(Verify, FindsTooFewInputs) {
  graph_.nodes[0].inputs.pop_back();
  expect_malformed("add has 2 inputs");
}
TEST_F(Verify, FindsTooManyInputs) {
  graph_.nodes[1].inputs.push_back(0);
  expect_malformed("sum has 1 inputs");
}
TEST_F(Verify, FindsMissingAttributes) {
  graph_.nodes[1].attributes = AttributeValue();
  expect_malformed("its op's attributes");
}
TEST_F(Verify, FindsAttributesOfAnotherOp) {
  graph_.nodes[1].attributes = AttributeValue(find_op("permute")->attributes, nullptr);
  expect_malformed("its op's attributes");
}
TEST_F(Verify, FindsAttributesWhereThereAreNone) {
  graph_.nodes[0].attributes = graph_.nodes[1].attributes;
  expect_malformed("its op's attributes");
}
TEST_F(Verify, FindsAttributesThatDoNotFitTheInput) {
  ASSERT_TRUE(graph_.nodes[1].attributes.type()->parse_field(graph_.nodes[1].attributes.get(), "axes", "[1]"));
  expect_malformed("not sorted axes");
}
TEST_F(Verify, FindsAReturnOfNothing) {
  graph_.outputs.push_back(6);
  expect_malformed("before return uses it");
}
TEST_F(Verify, FindsAnUpdateOfAnArgument) {
  graph_.updates[0].input = 0;
  expect_malformed("of a state input");
}
TEST_F(Verify, FindsAnUpdateOfNoInput) {
  graph_.updates[0].input = 3;
  expect_malformed("of a state input");
}
TEST_F(Verify, FindsAnUpdateByNothing) {
  graph_.updates[0].value = 6;
  expect_malformed("before update uses it");
}
TEST_F(Verify, FindsAnUpdateOfAnotherType) {
  graph_.updates[0].value = 5;
  expect_malformed("has the state's type");
}
TEST_F(Verify, FindsTwoUpdatesOfOneState) {
  graph_.updates.push_back({1, 0});
  expect_malformed("updated once");
}
TEST_F(Verify, FindsAStateOfAnotherType) {
  graph_.inputs[1].variable = Variable(f32({0, 0, 0}, {3}));
  expect_malformed("its variable's type");
}
TEST_F(Verify, FindsACapturedTensorOfAnotherType) {
  graph_.inputs[2].tensor = Tensor::from<double>({0, 0}, {2});
  expect_malformed("its tensor's type");
}
TEST_F(Verify, FindsAConstantOfAnotherType) {
  graph_.constants[0].second = f32({1, 2, 3}, {3});
  expect_malformed("dense and of its type");
}
TEST_F(Verify, FindsAStridedConstant) {
  graph_.constants[0].second = expand(f32({1}, {1}), {2});
  expect_malformed("dense and of its type");
}

}  // namespace
}  // namespace diptych::graph
