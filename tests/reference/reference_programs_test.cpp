// The reference programs run as a user runs them. Values are checked against formulas, the rest against the page.

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/ir.h"
#include "tests/io/folder.h"
#include "tests/reference/documented.h"
#include "tests/reports/well_formed.h"

namespace diptych::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ReferencePrograms, CustomOp) {
  const std::string output = output_of("custom_op");
  expect_documented("custom_op", output);
  EXPECT_EQ(count(output, "e^x: f32[4] {"), 4U) << "eager twice, and each call of the graph";
  const std::string ours = output.substr(output.find("eager, our rule"));
  const std::vector<double> gradient = numbers_after("gradient:", ours);
  const std::vector<double> x = {-2, 0, 1.5, 100};
  ASSERT_EQ(gradient.size(), x.size());
  double loss = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(gradient[i], 1 / (1 + std::exp(-x[i])), 1e-7);
    loss += std::max(x[i], 0.0) + std::log1p(std::exp(-std::abs(x[i])));
  }
  EXPECT_NEAR(numbers_after("loss:", ours).at(0), loss, 1e-5);
  EXPECT_TRUE(std::isnan(numbers_after("gradient:", output).at(3)));  // what the rule is for
}

TEST(ReferencePrograms, Attention) {
  const std::string output = output_of("attention");
  expect_documented("attention", output);
  EXPECT_EQ(count(output, "scores ="), 1U);
  EXPECT_THAT(output, HasSubstr("agree to 1e-6: yes"));
}

TEST(ReferencePrograms, Mixed) {
  const std::string output = output_of("mixed");
  expect_documented("mixed", output);
  EXPECT_THAT(output, HasSubstr("equal bits: yes"));
}

TEST(ReferencePrograms, TrainStep) {
  const std::string output = output_of("train_step");
  expect_documented("train_step", output);
  EXPECT_LT(numbers_after("loss", output).at(0), std::log(10)) << "better than guessing";
  EXPECT_GT(numbers_after("accuracy on the batch", output).at(0), 0.5);
  EXPECT_THAT(output, HasSubstr("equal bits: yes"));
  EXPECT_GT(numbers_after("median of 100 steps: eager", output).at(0), 0);
  EXPECT_THAT(output, ::testing::ContainsRegex("\n1 +first call +.*train_step.cpp:[0-9]+ +[0-9.]+ [mu]s +120 +"));
  EXPECT_THAT(output, ::testing::ContainsRegex("\n2 +argument 0: f32.64,64. -> f32.5,64. +.* 1 +"));
}

TEST(ReferencePrograms, Rigid) {
  const std::string output = output_of("rigid");
  expect_documented("rigid", output);
  EXPECT_THAT(output, HasSubstr("equal bits: yes"));
}

TEST(ReferencePrograms, HostRead) {
  const std::string output = output_of("host_read");
  expect_documented("host_read", output);
  for (const char* part : {"item()", "traced", "host_read.cpp:", "where()", "cond()", "debug::print()"}) {
    EXPECT_THAT(output, HasSubstr(part));
  }
  EXPECT_EQ(count(output, "{0.6, -0.8}"), 3U);  // (30, -40) / 50
}

TEST(ReferencePrograms, Branching) {
  const std::string output = output_of("branching");
  expect_documented("branching", output);
  // prediction 2 * 1 - 1 * 0.5 = 1.5. Error 0.5: 0.5^2 / 2, gradients 0.5 w and 0.5 x. Error -8.5: 8.5 - 0.5, -w and
  // -x.
  EXPECT_THAT(numbers_after("target 1: loss", output), ElementsAre(0.125, 1, -0.5, 0.5, 0.25));
  EXPECT_THAT(numbers_after("target 10: loss", output), ElementsAre(8, -2, 1, -1, -0.5));
}

TEST(ReferencePrograms, Passes) {
  const Folder folder;
  const std::string output = output_in(folder.path(), "passes", {"pictures"});
  expect_documented("passes", output);

  const std::size_t begin = output.find("graph \"example\"");
  const graph::Graph captured = graph::parse(output.substr(begin, output.find("\n}\n", begin) + 3 - begin));
  EXPECT_EQ(captured.nodes.size(), 12U);
  const std::string last = output.substr(output.rfind("graph \"example\""));
  EXPECT_THAT(output, HasSubstr("= exp("));
  EXPECT_THAT(last, Not(HasSubstr("= exp(")));
  EXPECT_EQ(count(last, "matmul("), 1U);

  std::size_t pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "pictures")) {
    EXPECT_EQ(entry.path().extension(), ".svg");
    const std::string picture = bytes_of(entry.path());
    EXPECT_EQ(reports::testing::markup_problem(picture), "") << entry.path();
    EXPECT_THAT(picture, HasSubstr("matmul"));
    ++pictures;
  }
  EXPECT_EQ(pictures, count(output, "\nafter ") + 1);
}

}  // namespace
}  // namespace diptych::testing
