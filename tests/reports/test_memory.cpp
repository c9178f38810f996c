// The memory of several arms: on hand-made blocks, whose peak and holders are known.

#include <algorithm>
#include <cstdint>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/text/plain_svg.h"
#include "reports/views/memory_picture.h"
#include "reports/views/memory_views.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
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

std::string picture_of(const std::vector<MemoryOfArm>& arms) { return memory_svg(memory_records(arms)); }

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
  EXPECT_TRUE(is_plain_svg(picture_of({empty})));
}

TEST(Memory, ViewsSayPeakHoldersAndArena) {
  const std::vector arms = {eager(), graph()};
  const std::string text = memory_text(memory_records(arms));
  EXPECT_THAT(text, AllOf(HasSubstr("memory of eager: at most 7.00 KiB, after 3.00 s; 6.00 KiB by matmul f32[768]"),
                          HasSubstr("its arena has 3.00 KiB (no plan needs less than 3.00 KiB)"),
                          HasSubstr("net.0 ... net.1 (2)"), HasSubstr("86 %")));
  const std::string svg = picture_of(arms);
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, AllOf(HasSubstr("eager: at most 7.00 KiB at 3.00 s"), HasSubstr("The arena of graph: 3.00 KiB"),
                         HasSubstr("exp f32[256]: 1.00 KiB at 2.00 KiB, from 3.00 s to 4.00 s")));
  EXPECT_THAT(memory_text(memory_records(arms, {.holders = 1})), ContainsRegex("and 2 more +1\\.00 KiB +14 %"));
  const nlohmann::json json = memory_json(arms);
  EXPECT_EQ(json["arms"][0]["peak_bytes"], 7 * kKiB);
  EXPECT_TRUE(json["arms"][0]["arena_bytes"].is_null());
  EXPECT_EQ(json["arms"][1]["blocks"][1]["offset"], 2 * kKiB);
}

/// Blocks at random places of a call.
MemoryOfArm busy_arm(std::size_t blocks) {
  std::mt19937_64 random(3);
  MemoryOfArm arm{.name = "eager", .seconds = 1};
  for (std::size_t i = 0; i < blocks; ++i) {
    const double from = static_cast<double>(random() % 1'000'000) * 1e-6;
    const auto bytes = static_cast<std::int64_t>(random() % 10'000);
    arm.blocks.push_back({.bytes = bytes,
                          .from = from,
                          .to = from + static_cast<double>(1 + random() % 5000) * 1e-6,
                          .op = "exp" + std::to_string(random() % 100),
                          .scope = std::to_string(i % 7),
                          .offset = bytes});
  }
  return arm;
}

/// What is alive at a time, block by block.
std::int64_t bytes_at(const MemoryOfArm& arm, double seconds) {
  std::int64_t bytes = 0;
  for (const MemoryBlock& block : arm.blocks) {
    bytes += block.from <= seconds && seconds < block.to ? block.bytes : 0;
  }
  return bytes;
}

TEST(Memory, ARecordIsBoundedAndKeepsThePeakExactly) {
  const MemoryOfArm arm = busy_arm(3000);
  MemoryPoint highest{0, 0};
  for (const MemoryBlock& block : arm.blocks) {
    const std::int64_t bytes = bytes_at(arm, block.from);
    if (bytes > highest.bytes || (bytes == highest.bytes && block.from < highest.seconds)) {
      highest = {block.from, bytes};
    }
  }
  const MemoryLimits limits{.points = 90, .holders = 5, .blocks = 40, .scopes = 2};
  const MemoryRecord record = memory_record(arm, limits);
  EXPECT_EQ(record.peak.bytes, highest.bytes);
  EXPECT_EQ(record.peak.seconds, highest.seconds);
  EXPECT_LE(record.timeline.size(), 91U);
  EXPECT_GT(record.timeline.size(), 60U);
  const std::vector<MemoryPoint> whole = timeline(arm);
  EXPECT_EQ(record.timeline.size() + record.points_left_out, whole.size());
  bool has_peak = false;
  for (const MemoryPoint& point : record.timeline) {
    EXPECT_EQ(point.bytes, bytes_at(arm, point.seconds)) << "a point that isn't there";
    has_peak = has_peak || (point.seconds == highest.seconds && point.bytes == highest.bytes);
  }
  EXPECT_TRUE(has_peak);
  for (double from = 0; from < 1; from += 1.0 / 30) {  // each stretch is as high and as low as it was
    const auto range = [&](const std::vector<MemoryPoint>& points) {
      std::pair<std::int64_t, std::int64_t> found = {INT64_MAX, INT64_MIN};
      for (const MemoryPoint& point : points) {
        if (point.seconds >= from + (from > 0 ? 1e-9 : 0) && point.seconds < from + 1.0 / 30 - 1e-9) {
          found = {std::min(found.first, point.bytes), std::max(found.second, point.bytes)};
        }
      }
      return found;
    };
    EXPECT_EQ(range(record.timeline), range(whole)) << from;
  }
}

TEST(Memory, ARecordKeepsTheLargestHoldersAndBlocks) {
  const MemoryOfArm arm = busy_arm(3000);
  const MemoryLimits limits{.points = 90, .holders = 5, .blocks = 40, .scopes = 2};
  const MemoryRecord record = memory_record(arm, limits);
  const MemoryPeak top = peak(arm);
  ASSERT_EQ(record.holders.size(), 5U);
  EXPECT_EQ(record.holders_left_out, top.holders.size() - 5);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(record.holders[i].bytes, top.holders[i].bytes);
    EXPECT_LE(record.holders[i].scopes.size(), 2U);
    EXPECT_EQ(record.holders[i].modules, top.holders[i].scopes.size());
    EXPECT_EQ(record.holders[i].scopes.back(), top.holders[i].scopes.back());
  }
  ASSERT_EQ(record.arena.size(), 40U);
  EXPECT_EQ(record.blocks_left_out, 2960U);
  std::vector<double> areas;
  const auto area = [](const MemoryBlock& block) { return static_cast<double>(block.bytes) * (block.to - block.from); };
  for (const MemoryBlock& block : arm.blocks) {
    areas.push_back(area(block));
  }
  std::sort(areas.rbegin(), areas.rend());
  for (const MemoryBlock& block : record.arena) {
    EXPECT_GE(area(block), areas[39]);
  }
  const MemoryRecord all = memory_record(arm, kNoMemoryLimits);
  EXPECT_EQ(all.points_left_out + all.holders_left_out + all.blocks_left_out, 0U);
  EXPECT_EQ(all.timeline.size(), timeline(arm).size());
}

TEST(Memory, HostileNames) {
  MemoryOfArm arm = graph();
  arm.name = "a\"'<script>&\x1b[2J\n\xE2\x80\xAE.";
  arm.blocks[0].op = arm.name + std::string(100'000, '.');
  arm.blocks[0].shape = arm.blocks[0].scope = arm.name;
  const std::string svg = picture_of({arm});
  EXPECT_TRUE(is_plain_svg(svg));
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  const std::string text = memory_text(memory_records(std::vector{arm}));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xE2\x80\xAE"))));
  EXPECT_LT(text.size(), 3000);
}

}  // namespace
}  // namespace diptych::reports
