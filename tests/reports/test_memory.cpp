// The memory of several arms: on hand-made blocks, whose peak and holders are known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/text/plain_svg.h"
#include "reports/views/memory_views.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kKiB = 1024;

/// Eager: an old state is freed at 2 s; two products of 3 KiB overlap from 3 to 4 s; the second outlives the call.
MemoryOfArm eager() {
  return {.name = "eager",
          .seconds = 10,
          .blocks = {{.bytes = kKiB, .from = 0, .to = 2, .is_older = true},
                     {.bytes = 2 * kKiB, .from = 1, .to = 5, .op = "exp", .shape = "f32[512]"},
                     {.bytes = 3 * kKiB, .from = 2, .to = 4, .op = "matmul", .scope = "net.0", .shape = "f32[768]"},
                     {.bytes = 3 * kKiB, .from = 3, .to = 10, .op = "matmul", .scope = "net.1", .shape = "f32[768]"}}};
}

MemoryOfArm graph() {
  return {.name = "graph",
          .seconds = 5,
          .blocks = {{.bytes = 3 * kKiB, .from = 0, .to = 3, .op = "matmul", .shape = "f32[768]", .offset = 0},
                     {.bytes = kKiB, .from = 3, .to = 4, .op = "exp", .shape = "f32[256]", .offset = 2 * kKiB}},
          .arena_bytes = 3 * kKiB,
          .lower_bound_bytes = 3 * kKiB};
}

TEST(Memory, TheTimelineAddsUpWhatIsAlive) {
  std::vector<std::pair<double, std::int64_t>> points;
  for (const MemoryPoint& point : timeline(eager())) {
    points.emplace_back(point.seconds, point.bytes / kKiB);
  }
  EXPECT_THAT(points, ElementsAre(std::pair(0., 0), std::pair(1., 2), std::pair(2., 4), std::pair(3., 7),
                                  std::pair(4., 4), std::pair(5., 2)))
      << "the last block outlives the call, the first was there before";
}

TEST(Memory, HoldersAtThePeakAddUpToIt) {
  const MemoryPeak top = peak(eager());
  EXPECT_EQ(top.at.bytes, 7 * kKiB);
  EXPECT_EQ(top.at.seconds, 3);
  ASSERT_EQ(top.holders.size(), 3);
  EXPECT_EQ(top.holders[0].op, "matmul");
  EXPECT_EQ(top.holders[0].bytes, 6 * kKiB);
  EXPECT_THAT(top.holders[0].scopes, ElementsAre("net.0", "net.1"));
  EXPECT_EQ(top.holders[1].op, "exp");
  EXPECT_EQ(top.holders[2].bytes, -kKiB) << "freed before the peak";
  std::int64_t sum = 0;
  for (const MemoryHolder& holder : top.holders) {
    sum += holder.bytes;
  }
  EXPECT_EQ(sum, top.at.bytes);
}

TEST(Memory, OfNothing) {
  const MemoryOfArm empty{.name = "eager"};
  EXPECT_EQ(peak(empty).at.bytes, 0);
  EXPECT_TRUE(peak(empty).holders.empty());
  EXPECT_TRUE(is_plain_svg(memory_svg(std::vector{empty})));
}

TEST(Memory, ViewsSayPeakHoldersAndArena) {
  const std::vector arms = {eager(), graph()};
  const std::string text = memory_text(arms);
  EXPECT_THAT(text, AllOf(HasSubstr("memory of eager: at most 7.00 KiB, after 3.00 s; 6.00 KiB by matmul f32[768]"),
                          HasSubstr("its arena has 3.00 KiB (no plan needs less than 3.00 KiB)"),
                          HasSubstr("net.0 ... net.1 (2)"), HasSubstr("86 %")));
  const std::string svg = memory_svg(arms);
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, AllOf(HasSubstr("eager: at most 7.00 KiB at 3.00 s"), HasSubstr("The arena of graph: 3.00 KiB"),
                         HasSubstr("exp f32[256]: 1.00 KiB at 2.00 KiB, from 3.00 s to 4.00 s")));
  EXPECT_THAT(memory_text(arms, {}, 1), HasSubstr("and 2 more"));
  const nlohmann::json json = memory_json(arms);
  EXPECT_EQ(json["arms"][0]["peak_bytes"], 7 * kKiB);
  EXPECT_TRUE(json["arms"][0]["arena_bytes"].is_null());
  EXPECT_EQ(json["arms"][1]["blocks"][1]["offset"], 2 * kKiB);
}

TEST(Memory, HostileNames) {
  MemoryOfArm arm = graph();
  arm.name = "a\"'<script>&\x1b[2J\n\xE2\x80\xAE.";
  arm.blocks[0].op = arm.name + std::string(100'000, '.');
  arm.blocks[0].shape = arm.blocks[0].scope = arm.name;
  const std::string svg = memory_svg(std::vector{arm});
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  const std::string text = memory_text(std::vector{arm});
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xE2\x80\xAE"))));
  EXPECT_LT(text.size(), 3000);
}

}  // namespace
}  // namespace diptych::reports
