// What stops or hurts a capture, several obstacles in one program.

#include "framework/transforms/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/capture.h"
#include "framework/core/guarded.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::ramp;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Arguments = std::span<const Tensor>;

std::vector<std::string> obstacles(const CapturedFunction& function, const std::vector<Tensor>& first,
                                   const std::vector<Tensor>& second) {
  std::vector<std::string> texts;
  for (const Finding& finding : find_obstacles(function, first, second)) {
    texts.push_back(std::string(name_of(finding.obstacle)) + ": " + finding.what + "; " + finding.way_out);
  }
  return texts;
}
std::vector<std::string> obstacles(const CapturedFunction& function) {
  return obstacles(function, {ramp({4})}, {ramp({4}, -9)});
}

TEST(Readiness, AProgramOfTensorsAndVariablesIsReady) {
  Variable weight(ramp({4}));
  const Tensor constant = ramp({4}, 5);
  Generator generator(1);
  EXPECT_THAT(obstacles([&](Arguments in) -> std::vector<Tensor> {
                const Tensor y = dropout(weight.value() * in[0] + constant, 0.5, true, generator);
                weight.assign(weight.value() * 0.9);
                return {y};
              }),
              IsEmpty());
}

TEST(Readiness, FunctionsThatRunAsGraphsAreLookedInto) {
  auto inner = jit([](const Tensor& x) { return exp(x) * 2.0; });
  EXPECT_THAT(obstacles([&](Arguments in) -> std::vector<Tensor> { return {inner(in[0]) + 1.0}; }), IsEmpty());
  auto branching = jit([](const Tensor& x) { return sum(x).item() > 0 ? exp(x) : neg(x); });
  EXPECT_THAT(obstacles([&](Arguments in) -> std::vector<Tensor> { return {branching(in[0])}; }),
              Contains(HasSubstr("host read: item() reads f32[], the result of sum")));
}

TEST(Readiness, ACaptureWithinACallDoesntHideTheRest) {
  const auto found = obstacles([](Arguments in) -> std::vector<Tensor> {
    {
      Capture capture("other");
      const CaptureScope scope(capture);
      const Tensor x = capture.argument({DType::float32, {4}}, "x");
      capture.finish(std::vector{exp(x)}, Location::current());
    }
    return {in[0] * sum(in[0]).item()};
  });
  ASSERT_GE(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr("host read: item() reads f32[], the result of sum"));
}

TEST(Readiness, AllObstaclesOfAProgramAreListed) {
  int calls = 0;
  Tensor state = ramp({4});
  const auto found = obstacles([&](Arguments in) -> std::vector<Tensor> {
    ++calls;
    const Tensor total = sum(in[0]);
    Tensor y = in[0] * static_cast<double>(calls);         // a number that changes: a constant of its own
    y = y + clip(in[0], 0.0, static_cast<double>(calls));  // an attribute that changes
    y = y + state;                                         // another tensor in each call
    state = copy(state) * 2.0;
    if (total.item() > 100) {  // reads a result, but takes no other path here
      y = -y;
    }
    const std::vector<float> values = in[0].to_vector<float>();
    return {y * static_cast<double>(values.size())};
  });
  for (const char* expected :
       {"host read: item() reads f32[], the result of sum at", "host read: to_vector() reads f32[4], argument 0",
        "number: clip has {", "untracked state: add reads f32[4], which is neither"}) {
    EXPECT_THAT(found, Contains(HasSubstr(expected)));
  }
}

TEST(Readiness, ABranchOnElementsIsNamedAsOne) {
  const auto found = obstacles([](Arguments in) -> std::vector<Tensor> {
    return {greater(sum(in[0]), zeros({})).item() != 0 ? exp(in[0]) : neg(in[0])};
  });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0],
              AllOf(HasSubstr("host read: item() reads bool[], the result of greater at"), HasSubstr("cond()")));
  EXPECT_THAT(found[1], AllOf(HasSubstr("path: op"), HasSubstr("is exp at"), HasSubstr("and neg at")));
}

TEST(Readiness, OtherTypesAreCompiledAnew) {
  const auto function = [](Arguments in) -> std::vector<Tensor> { return {exp(in[0])}; };
  EXPECT_THAT(obstacles(function, {ramp({4})}, {ramp({8})}),
              ElementsAre(HasSubstr("recompile: argument 0 is f32[4], then f32[8]; each type is compiled once")));
}

TEST(Readiness, SoIsAValueOfTheHostThatChanges) {
  Guarded training("training of 'block'", 1);
  EXPECT_THAT(obstacles([&](Arguments in) -> std::vector<Tensor> {
                training.set(1 - training.get());
                return {in[0] * 2.0};
              }),
              ElementsAre(AllOf(HasSubstr("recompile: arguments of the same types are compiled anew"),
                                HasSubstr("training of 'block': 1 -> 0"))));
}

TEST(Readiness, SoAreOtherStrides) {
  const auto function = [](Arguments in) -> std::vector<Tensor> { return {exp(in[0])}; };
  EXPECT_THAT(obstacles(function, {ramp({3, 3})}, {transpose(ramp({3, 3}), 0, 1)}),
              ElementsAre(HasSubstr("argument 0: f32[3,3] -> f32[3,3] strides")));
}

TEST(Readiness, WhatOnlyACaptureRefusesIsListed) {
  const auto found = obstacles([](Arguments in) -> std::vector<Tensor> {
    const Variable fresh(ramp({4}), "fresh");
    return {fresh.value() + in[0]};
  });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr("capture: variable 'fresh' was created inside a captured function"));
}

TEST(Readiness, AThrowingProgramLeavesEagerAsItWas) {
  EXPECT_THROW(obstacles([](Arguments in) -> std::vector<Tensor> { return {add(in[0], ramp({3}))}; }), ShapeError);
  EXPECT_EQ(sum(ramp({4})).item(), 10);
}

}  // namespace
}  // namespace diptych::graph
