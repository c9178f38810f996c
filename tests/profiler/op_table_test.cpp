#include "profiler/trace/op_table.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace diptych::profiler {
namespace {

using trace::Category;

///  main    |-- step 100..1100 ----------------------------|
///             |- matmul 200..600 -|  |- matmul 700..800 -|
///               |- gemm 250..550 -|
///  worker                                     |- gemm 1000..1300 -|
Trace nested_zones() {
  Trace trace;
  trace.duration_ns = 2'000;
  trace.threads = {{1, "main", 0}, {2, "worker", 0}};
  trace.labels = {
      {"step", Category::user}, {"matmul", Category::op}, {"gemm", Category::kernel}, {"bytes", Category::memory}};
  trace.zones = {{0, 0, 100, 1'100, 0, Trace::no_parent, 0},
                 {0, 1, 200, 600, 1, 0, 1},
                 {0, 2, 250, 550, 1, 1, 2},
                 {0, 1, 700, 800, 2, 0, 1},
                 {1, 2, 1'000, 1'300, 3, Trace::no_parent, 0}};
  return trace;
}

const OpRow& row(const OpTable& table, std::string_view name) {
  for (const OpRow& candidate : table.rows) {
    if (candidate.name == name) {
      return candidate;
    }
  }
  throw std::out_of_range("no such row");
}

TEST(OpTable, SplitsTotalAndSelfTime) {
  const OpTable table = op_table(nested_zones());
  ASSERT_EQ(table.rows.size(), 3U) << "a counter makes no row";
  EXPECT_EQ(table.rows[0].name, "gemm") << "600 ns of self time";
  const OpRow& matmul = row(table, "matmul");
  EXPECT_EQ(matmul.category, Category::op);
  EXPECT_EQ(matmul.calls, 2U);
  EXPECT_EQ(matmul.total_ns, 500);
  EXPECT_EQ(matmul.self_ns, 200);
  EXPECT_EQ(matmul.min_ns, 100);
  EXPECT_EQ(matmul.max_ns, 400);
  EXPECT_DOUBLE_EQ(matmul.mean_ns, 250.0);
  EXPECT_DOUBLE_EQ(matmul.share_of_wall, 0.1);
  EXPECT_EQ(row(table, "step").self_ns, 500);
}

TEST(OpTable, CountsTimeThatIsCoveredByAnyThreadOnce) {
  const OpTable table = op_table(nested_zones());
  EXPECT_EQ(table.wall_ns, 2'000);
  EXPECT_EQ(table.covered_ns, 1'200) << "100..1300";
  EXPECT_EQ(table.uncovered_ns, 800);
}

TEST(OpTable, TakesTheProfilersOwnCostOff) {
  const OpTable table = op_table(nested_zones(), {.enabled_ns = 30.0, .inside_ns = 10.0});
  // One inner part each; two children add an outer part of 20 each.
  EXPECT_DOUBLE_EQ(row(table, "step").corrected_self_ns, 500.0 - 10.0 - 2 * 20.0);
  EXPECT_DOUBLE_EQ(row(table, "step").corrected_total_ns, 1000.0 - 10.0 - 3 * 30.0);
  EXPECT_DOUBLE_EQ(row(table, "matmul").corrected_self_ns, 200.0 - 2 * 10.0 - 20.0);
  EXPECT_DOUBLE_EQ(table.estimated_overhead_ns, 150.0);
}

TEST(OpTable, ShowsNegativeCorrectedTimesAsTheyAre) {
  const OpTable table = op_table(nested_zones(), {.enabled_ns = 3000.0, .inside_ns = 1000.0});
  EXPECT_DOUBLE_EQ(row(table, "step").corrected_self_ns, 500.0 - 1000.0 - 2 * 2000.0);
  const std::string text = render(table);
  EXPECT_THAT(text, testing::HasSubstr("-4.50 us"));
  EXPECT_THAT(text, testing::HasSubstr("shorter than what the tracer resolves"));
}

TEST(OpTable, DoesNotCountRecursionTwice) {
  Trace trace = nested_zones();
  trace.zones = {{0, 0, 0, 1'000, 0, Trace::no_parent, 0}, {0, 0, 100, 900, 0, 0, 1}};
  const OpTable table = op_table(trace);
  EXPECT_EQ(table.rows.at(0).calls, 2U);
  EXPECT_EQ(table.rows.at(0).total_ns, 1'000);
  EXPECT_EQ(table.rows.at(0).self_ns, 1'000);
}

TEST(OpTable, JoinsLabelsThatReadTheSame) {
  Trace trace = nested_zones();
  trace.labels[2] = {"matmul", Category::op};
  EXPECT_EQ(op_table(trace).rows.size(), 2U);
  trace.labels[2] = {"matmul", Category::kernel};
  EXPECT_EQ(op_table(trace).rows.size(), 3U);
}

TEST(OpTable, RendersAlignedColumnsAndAFooter) {
  const std::string text = render(op_table(nested_zones(), {.enabled_ns = 20.0, .inside_ns = 10.0}));
  EXPECT_THAT(text, testing::HasSubstr("wall 2.00 us; inside zones 1.20 us (60.0%), outside 800 ns (40.0%)"));
  EXPECT_THAT(text, testing::HasSubstr("5 zones x 20.0 ns"));
  std::istringstream lines(text);
  std::string header;
  std::string first;
  std::getline(lines, header);
  std::getline(lines, first);
  EXPECT_THAT(first, testing::StartsWith("kernel"));
  EXPECT_EQ(header.find("calls") + 5, first.find("2  ") + 1) << text;
}

TEST(OpTable, LimitsRowsAndWarnsOfDrops) {
  Trace trace = nested_zones();
  trace.dropped = 12;
  const std::string text = render(op_table(trace), 1);
  EXPECT_THAT(text, testing::HasSubstr("and 2 more rows"));
  EXPECT_THAT(text, testing::HasSubstr("INCOMPLETE: 12 records"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("matmul")));
}

TEST(OpTable, HandlesAnEmptyTrace) {
  const OpTable table = op_table(Trace{});
  EXPECT_TRUE(table.rows.empty());
  EXPECT_NO_THROW(render(table));
}

TEST(OpTable, GivesJson) {
  const nlohmann::json document = to_json(op_table(nested_zones(), {.enabled_ns = 20.0, .inside_ns = 10.0}));
  EXPECT_EQ(document.at("rows").at(0).at("name"), "gemm");
  EXPECT_EQ(document.at("rows").at(0).at("category"), "kernel");
  EXPECT_EQ(document.at("rows").at(0).at("self_ns"), 600);
  EXPECT_EQ(document.at("uncovered_ns"), 800);
  EXPECT_EQ(document.at("overhead").at("estimated_total_ns"), 100.0);
}

}  // namespace
}  // namespace diptych::profiler
