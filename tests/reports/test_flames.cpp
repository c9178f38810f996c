// Flame graphs of several arms: on a hand-made profile, whose widths and colours are known.

#include <cmath>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/text/plain_svg.h"
#include "reports/views/flames.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// 100 us against 75: matmul is as fast, exp takes a third of its time, add is only in the graph.
ProfileInput sample() {
  ProfileInput input;
  input.ops = {{1, "matmul", "net.0", "", ""}, {2, "exp", "net.1", "", ""}, {3, "add", "", "", ""}};
  input.arms = {{"eager", {{"matmul", {1}, 60e-6}, {"exp", {2}, 30e-6}}, {}, 0, 100e-6},
                {"graph", {{"matmul", {1}, 60e-6}, {"exp", {2}, 10e-6}, {"add", {3}, 4e-6}}, {}, 0, 75e-6}};
  return input;
}

struct Drawn {
  std::string css;
  double x = 0, y = 0, width = 0;
};
/// The rectangles whose tooltip begins with `path`, panel after panel.
std::vector<Drawn> frames_of(const std::string& svg, const std::string& path) {
  const std::regex frame("<g[^>]*><title>" + path +
                         R"re(: [^<]*</title><rect class="f (\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)")re");
  std::vector<Drawn> found;
  for (std::sregex_iterator each(svg.begin(), svg.end(), frame), end; each != end; ++each) {
    found.push_back({(*each)[1], std::stod((*each)[2]), std::stod((*each)[3]), std::stod((*each)[4])});
  }
  return found;
}

TEST(Flames, WidthsAreTimesAndColoursAreChanges) {
  const std::string svg = flame_svg(flame_frames(align(sample(), ProfileBy::stack)));
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  const std::vector<Drawn> all = frames_of(svg, "all");
  ASSERT_EQ(all.size(), 2);
  EXPECT_NEAR(all[1].width / all[0].width, 0.75, 1e-3) << "one scale";
  const std::vector<Drawn> net = frames_of(svg, "net");
  const std::vector<Drawn> matmul = frames_of(svg, "net / 0 / matmul");
  const std::vector<Drawn> exp = frames_of(svg, "net / 1 / exp");
  const std::vector<Drawn> add = frames_of(svg, "add");
  ASSERT_EQ(net.size(), 2);
  ASSERT_EQ(matmul.size(), 2);
  ASSERT_EQ(exp.size(), 2);
  ASSERT_EQ(add.size(), 1) << "eager has none";
  for (std::size_t arm = 0; arm < 2; ++arm) {
    EXPECT_EQ(matmul[arm].css, "same");
    EXPECT_EQ(exp[arm].css, "s3");
    EXPECT_EQ(net[arm].css, "s2") << "20 of 90 us";
    EXPECT_NEAR(matmul[arm].width / all[0].width, 0.6, 1e-3);
    EXPECT_GT(matmul[arm].y, net[arm].y) << "the outermost is on top";
    EXPECT_NEAR(exp[arm].x, matmul[arm].x + matmul[arm].width, 0.2) << "in program order";
  }
  EXPECT_EQ(add[0].css, "l3");
  EXPECT_THAT(svg, AllOf(HasSubstr("eager, 100 us a call"), HasSubstr("graph, 75.0 us a call"),
                         HasSubstr("net / 1 / exp: eager 30.0 us, graph 10.0 us"), HasSubstr("less than 1.00 us")));
}

std::vector<std::string> names_of(const FlameFrames& frames) {
  std::vector<std::string> names;
  for (const FlameFrame& frame : frames.frames) {
    names.push_back(fmt::format("{}{}", std::string(frame.depth, ' '), frame.name));
  }
  return names;
}

TEST(Flames, TheSmallestFramesAreLeftOutFirst) {
  const FlameFrames all = flame_frames(align(sample(), ProfileBy::stack));
  EXPECT_THAT(names_of(all), ElementsAre("all", " net", "  0", "   matmul", "  1", "   exp", " add", " (outside ops)"));
  EXPECT_THAT(frame_paths(all.frames), ElementsAre("all", "net", "net / 0", "net / 0 / matmul", "net / 1",
                                                   "net / 1 / exp", "add", "(outside ops)"));
  EXPECT_EQ(all.frames[0].kind, FlameFrame::Kind::call);
  EXPECT_EQ(all.frames[2].kind, FlameFrame::Kind::module);
  EXPECT_EQ(all.frames[3].kind, FlameFrame::Kind::op);
  EXPECT_EQ(all.frames[7].kind, FlameFrame::Kind::outside);
  // Outside of ops eager takes 10 us; add takes 4, in the graph.
  const FlameFrames most = largest_frames(all, 7);
  EXPECT_THAT(names_of(most), ElementsAre("all", " net", "  0", "   matmul", "  1", "   exp", " (outside ops)"));
  EXPECT_EQ(most.left_out, 1U);
  const FlameFrames few = largest_frames(most, 4);
  EXPECT_THAT(names_of(few), ElementsAre("all", " net", "  0", "   matmul"));
  EXPECT_EQ(few.left_out, 4U);
  EXPECT_THAT(few.frames[1].seconds, ElementsAre(DoubleNear(90e-6, 1e-12), DoubleNear(70e-6, 1e-12)))
      << "with what is left out inside";
}

TEST(Flames, InAPageOpsHaveColoursAndEachArmItsPanel) {
  const FlameFrames frames = flame_frames(align(sample(), ProfileBy::stack));
  const std::vector<std::size_t> both = {0, 1};
  const std::string ops = flame_picture(frames, both, FlameColours::op, PictureIn::page);
  EXPECT_TRUE(is_plain_svg(ops));
  EXPECT_THAT(ops, AllOf(HasSubstr("role=\"img\" aria-label=\"Flame graph: eager, graph\""), HasSubstr("30.0 µs"),
                         Not(HasSubstr("<style"))));
  const std::vector<Drawn> matmul = frames_of(ops, "net / 0 / matmul");
  ASSERT_EQ(matmul.size(), 2U);
  EXPECT_EQ(matmul[0].css, matmul[1].css);
  EXPECT_THAT(matmul[0].css, ::testing::StartsWith("k"));
  EXPECT_THAT(ops, AllOf(HasSubstr("<g data-op=\"matmul\" data-scope=\"net.0\"><title>net / 0 / matmul"),
                         HasSubstr("<g data-scope=\"net\"><title>net:"), HasSubstr("<g><title>all:")))
      << "what the page's script marks";
  EXPECT_THAT(flame_svg(frames), Not(HasSubstr("data-op"))) << "a file has no script";
  EXPECT_EQ(frames_of(ops, "net")[0].css, "same") << "a module";
  const std::vector<std::size_t> second = {1};
  const std::string difference = flame_picture(frames, second, FlameColours::change, PictureIn::page);
  const std::vector<Drawn> all = frames_of(difference, "all");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_NEAR(all[0].width, 940, 0.1) << "by itself it takes all of the width";
  EXPECT_EQ(frames_of(difference, "net / 1 / exp")[0].css, "s3");
  EXPECT_EQ(frames_of(difference, "add")[0].css, "l3");
}

TEST(Flames, StacksAreCollapsed) {
  const AlignedProfile stacks = align(sample(), ProfileBy::stack);
  EXPECT_EQ(folded_stacks(stacks, 0), "net;0;matmul 60000\nnet;1;exp 30000\n(outside ops) 10000\n");
  EXPECT_EQ(folded_stacks(stacks, 1), "net;0;matmul 60000\nnet;1;exp 10000\nadd 4000\n(outside ops) 1000\n");
}

TEST(Flames, SpeedscopeHasEveryArm) {
  const nlohmann::json file = speedscope_json(align(sample(), ProfileBy::stack), "mlp");
  std::vector<std::string> frames;
  for (const nlohmann::json& frame : file["shared"]["frames"]) {
    frames.push_back(frame["name"]);
  }
  ASSERT_EQ(file["profiles"].size(), 2U);
  for (std::size_t arm = 0; arm < 2; ++arm) {
    const nlohmann::json& profile = file["profiles"][arm];
    EXPECT_EQ(profile["name"], arm == 0 ? "eager" : "graph");
    ASSERT_EQ(profile["samples"].size(), profile["weights"].size());
    std::string text;  // as collapsed stacks, which the test before has by hand
    double sum = 0;
    for (std::size_t i = 0; i < profile["samples"].size(); ++i) {
      std::string stack;
      for (const nlohmann::json& frame : profile["samples"][i]) {
        stack += (stack.empty() ? "" : ";") + frames.at(frame.get<std::size_t>());
      }
      const double seconds = profile["weights"][i];
      sum += seconds;
      text += fmt::format("{} {}\n", stack, std::llround(seconds * 1e9));
    }
    EXPECT_EQ(text, folded_stacks(align(sample(), ProfileBy::stack), arm));
    EXPECT_DOUBLE_EQ(profile["endValue"], sum);
  }
}

TEST(Flames, HostileNamesAndOddTimes) {
  ProfileInput input = sample();
  const std::string hostile = "a;b\"'<script>&\x1b[2J\n\xE2\x80\xAE.";
  input.ops[0].op = hostile + std::string(100'000, '.');
  input.ops[0].scope = hostile + std::string(100'000, '.');
  input.ops[1].scope = "....";
  input.arms[0].name = hostile;
  input.arms[1].kernels.push_back({hostile, {}, 1e-6});
  input.arms[1].total_seconds = 1e-6;  // less than its kernels: they ran at the same time
  const AlignedProfile stacks = align(input, ProfileBy::stack);
  const std::string svg = flame_svg(flame_frames(stacks));
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_LT(svg.size(), 1 << 22);
  for (std::size_t arm = 0; arm < 2; ++arm) {
    EXPECT_EQ(testing::text_problem(folded_stacks(stacks, arm)), "");
  }
  const nlohmann::json file = speedscope_json(stacks, hostile);
  for (const nlohmann::json& frame : file["shared"]["frames"]) {
    EXPECT_EQ(testing::text_problem(frame["name"].get<std::string>() + "\n"), "");
  }
  for (const AlignedProfile& empty : {AlignedProfile{}, align({}, ProfileBy::stack)}) {
    EXPECT_TRUE(is_plain_svg(flame_svg(flame_frames(empty))));
  }
}

}  // namespace
}  // namespace diptych::reports
