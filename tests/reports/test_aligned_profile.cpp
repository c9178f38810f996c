// The profile of several arms as one: the join on hand-made profiles, the fates of ops on real graphs, the views.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/graph/fused_op.h"
#include "framework/transforms/jit.h"
#include "reports/analysis/aligned_profile.h"
#include "reports/views/profile_views.h"
#include "reports/views/source_ops.h"
#include "reports/views/tracing_views.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

const AlignedRow& row_of(const AlignedProfile& profile, const std::string& name) {
  for (const AlignedRow& row : profile.rows) {
    if (row.name == name) {
      return row;
    }
  }
  throw std::out_of_range("no row " + name);
}

void expect_sums(const AlignedProfile& profile) {
  for (std::size_t arm = 0; arm < profile.arms.size(); ++arm) {
    double sum = 0;
    for (const AlignedRow& row : profile.rows) {
      sum += row.arms[arm].seconds.value_or(0);
    }
    EXPECT_NEAR(sum, profile.total_seconds[arm], 1e-15) << profile.arms[arm];
  }
}

/// exp, mul and add are one kernel in the graph; full is folded, check is only in eager, pack only in the graph.
ProfileInput sample() {
  ProfileInput input;
  input.ops = {{1, "matmul", "net.0", "model.cpp:3", "f32[4,4]"}, {2, "exp", "net.1", "model.cpp:5", "f32[4,4]"},
               {3, "mul", "net.1", "model.cpp:6", "f32[4,4]"},    {4, "add", "net.1", "model.cpp:6", "f32[4]"},
               {5, "full", "", "model.cpp:9", "f32[]"},           {6, "pack", "", "", "f32[4,4]"}};
  ProfiledArm eager{"eager",
                    {{"matmul", {1}, 50e-6},
                     {"exp", {2}, 10e-6},
                     {"mul", {3}, 20e-6},
                     {"add", {4}, 30e-6},
                     {"full", {5}, 1e-6},
                     {"check", {}, 2e-6}},
                    {},
                    3e-6,
                    120e-6};
  ProfiledArm graph{"graph",
                    {{"matmul", {1}, 52e-6}, {"fused", {2, 3, 4}, 12e-6}, {"pack", {6}, 1e-6}},
                    {{1, {Fate::kernel}},
                     {2, {Fate::fused, {"mul", "add"}}},
                     {3, {Fate::fused, {"exp", "add"}}},
                     {4, {Fate::fused, {"exp", "mul"}}},
                     {5, {Fate::folded, {}, "constant-folding"}},
                     {6, {Fate::kernel}}},
                    0,
                    70e-6};
  input.arms = {eager, graph};
  input.parts = {{"matmul", {1e-6, 2e-6, 3e-6, 0}}, {"full", {3e-6, 0, 1e-6, 0}}};
  return input;
}

TEST(AlignedProfile, JoinsOpsOfBothArmsAndOfOne) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  expect_sums(profile);
  EXPECT_DOUBLE_EQ(profile.gap(1), 50e-6);
  EXPECT_NEAR(profile.saved(row_of(profile, "matmul"), 1), -2e-6, 1e-15);
  const AlignedRow& check = row_of(profile, "check");
  EXPECT_DOUBLE_EQ(check.arms[0].seconds.value(), 2e-6);
  EXPECT_EQ(check.arms[1].seconds, std::nullopt);
  EXPECT_EQ(fates_text(profile, check, 1), "only in eager");
  const AlignedRow& pack = row_of(profile, "pack");
  EXPECT_EQ(pack.arms[0].seconds, std::nullopt);
  EXPECT_DOUBLE_EQ(profile.saved(pack, 1), -1e-6);
  EXPECT_EQ(fates_text(profile, pack, 1), "only in graph; same kernel");
  EXPECT_EQ(fates_text(profile, row_of(profile, "full"), 1), "folded while compiling");
  EXPECT_DOUBLE_EQ(row_of(profile, "(tape)").arms[0].seconds.value(), 3e-6);
  EXPECT_NEAR(row_of(profile, "(outside ops)").arms[0].seconds.value(), 4e-6, 1e-15);
  EXPECT_NEAR(row_of(profile, "(outside ops)").arms[1].seconds.value(), 5e-6, 1e-15);
}

TEST(AlignedProfile, DividesAFusedKernelByWhatItsOpsCostAlone) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  const AlignedRow& exp = row_of(profile, "exp");
  EXPECT_NEAR(exp.arms[1].seconds.value(), 2e-6, 1e-15);
  EXPECT_NEAR(row_of(profile, "mul").arms[1].seconds.value(), 4e-6, 1e-15);
  EXPECT_NEAR(row_of(profile, "add").arms[1].seconds.value(), 6e-6, 1e-15);
  EXPECT_TRUE(exp.arms[1].is_estimate);
  EXPECT_FALSE(exp.arms[0].is_estimate);
  EXPECT_FALSE(row_of(profile, "matmul").arms[1].is_estimate);
  EXPECT_EQ(fates_text(profile, exp, 1), "fused with mul, add");
}

TEST(AlignedProfile, EachSourceOpHasItsTimeInEveryArm) {
  const auto times = seconds_by_source_op(sample());
  ASSERT_EQ(times.size(), 6U);
  EXPECT_EQ(times.at(1)[0].seconds, 50e-6);
  EXPECT_EQ(times.at(1)[1].seconds, 52e-6);
  EXPECT_NEAR(times.at(4)[1].seconds.value(), 6e-6, 1e-15);  // 30 of 60 us alone, of a kernel of 12
  EXPECT_TRUE(times.at(4)[1].is_estimate);
  EXPECT_EQ(times.at(5)[1].seconds, std::nullopt) << "folded";
  EXPECT_EQ(times.at(6)[0].seconds, std::nullopt) << "only in graph";
}

TEST(AlignedProfile, WhatIsBesideTheSourceOpsMakesUpTheRestOfACall) {
  const ProfileInput input = sample();
  const std::vector<AlignedRow> rest = seconds_beside_source_ops(input);
  std::vector<std::string> names;
  for (const AlignedRow& row : rest) {
    names.push_back(row.name);
  }
  EXPECT_THAT(names, ElementsAre("check", "(tape)", "(outside ops)"));
  EXPECT_EQ(rest[0].arms[0].seconds, 2e-6);
  EXPECT_EQ(rest[0].arms[1].seconds, std::nullopt) << "only in eager";
  EXPECT_EQ(rest[1].arms[0].seconds, 3e-6);
  for (std::size_t arm = 0; arm < 2; ++arm) {
    double sum = 0;
    for (const AlignedRow& row : rest) {
      sum += row.arms[arm].seconds.value_or(0);
    }
    for (const auto& [id, times] : seconds_by_source_op(input)) {
      sum += times[arm].seconds.value_or(0);
    }
    EXPECT_NEAR(sum, input.arms[arm].total_seconds, 1e-15);
  }
}

/// 100 GFLOP/s; a cache of 1000 bytes at 200 GB/s, memory at 10 GB/s.
MachineRoofs roofs() { return {100e9, {{"L1", 1000, 200e9}, {"memory", std::nullopt, 10e9}}}; }

// By hand: 1e6 operations take 10 us; 2e5 bytes from memory 20 us, 400 from the cache 2 ns.
TEST(AlignedProfile, EachSourceOpHasTheMachinesLimitInEveryArm) {
  ProfileInput input = sample();
  input.arms[0].kernels[0].work = {{1e6, 800}};
  input.arms[0].kernels[1].work = {{0, 400}};
  input.arms[0].kernels[4].work = {{0, 0}};  // full
  input.arms[1].kernels[0].work = {{1e6, 800}, {0, 2e5}};
  input.arms[1].kernels[0].runs = 6;
  input.arms[1].kernels[1].work = {{10, 2e5}};
  const MachineRoofs machine = roofs();
  const auto times = seconds_by_source_op(input, &machine);
  EXPECT_NEAR(times.at(1)[0].limit_seconds.value(), 10e-6, 1e-15);
  EXPECT_NEAR(times.at(2)[0].limit_seconds.value(), 2e-9, 1e-18);
  EXPECT_EQ(times.at(3)[0].limit_seconds, std::nullopt) << "its work isn't known";
  EXPECT_EQ(times.at(5)[0].limit_seconds, std::nullopt) << "nothing to do, as in a view";
  EXPECT_NEAR(times.at(1)[1].limit_seconds.value(), 3 * 10e-6 + 3 * 20e-6, 1e-15) << "two kernels, three runs of each";
  // 20 us for the kernel's 12: more than all of it, and the same of each of its ops.
  EXPECT_NEAR(times.at(4)[1].limit_seconds.value(), 10e-6, 1e-15);
  EXPECT_NEAR(times.at(2)[1].limit_seconds.value() / times.at(2)[1].seconds.value(), 20.0 / 12, 1e-9);
  EXPECT_EQ(seconds_by_source_op(input).at(1)[0].limit_seconds, std::nullopt) << "no machine";
}

TEST(AlignedProfile, OpsWithoutACostOfTheirOwnCountAsTheMeanOfTheOthers) {
  ProfileInput input = sample();
  input.arms[0].kernels.erase(input.arms[0].kernels.begin() + 1);  // exp
  const AlignedProfile profile = align(input, ProfileBy::op);
  EXPECT_NEAR(row_of(profile, "exp").arms[1].seconds.value(), 4e-6, 1e-15) << "25 of 25 + 20 + 30";
  expect_sums(profile);
  input.arms[0].kernels.clear();
  const AlignedProfile equal = align(input, ProfileBy::op);
  EXPECT_NEAR(row_of(equal, "add").arms[1].seconds.value(), 4e-6, 1e-15);
  expect_sums(equal);
}

TEST(AlignedProfile, WhatChangedMostComesFirst) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  std::vector<std::string> names;
  for (const AlignedRow& row : profile.rows) {
    names.push_back(row.name);
  }
  ASSERT_THAT(names, SizeIs(9));
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 4), ElementsAre("add", "mul", "exp", "(tape)"));
}

TEST(AlignedProfile, GroupsByScopeShapeAndLine) {
  const AlignedProfile scopes = align(sample(), ProfileBy::scope);
  expect_sums(scopes);
  EXPECT_EQ(row_of(scopes, "net.1").ops, 3U);
  EXPECT_NEAR(row_of(scopes, "net.1").arms[0].seconds.value(), 60e-6, 1e-15);
  EXPECT_NEAR(row_of(scopes, "net.1").arms[1].seconds.value(), 12e-6, 1e-15);
  EXPECT_EQ(fates_text(scopes, row_of(scopes, "net.1"), 1), "fused with mul, add, exp");
  EXPECT_EQ(row_of(scopes, "(no module)").ops, 2U);
  const AlignedProfile shapes = align(sample(), ProfileBy::shape);
  expect_sums(shapes);
  EXPECT_EQ(row_of(shapes, "add f32[4]").ops, 1U);
  const AlignedProfile lines = align(sample(), ProfileBy::line);
  expect_sums(lines);
  EXPECT_EQ(row_of(lines, "model.cpp:6").ops, 2U);
  EXPECT_EQ(row_of(lines, "(no line)").ops, 1U);
}

TEST(AlignedProfile, SplitsTheBaseByTheCostOfAnOpBesidesItsKernel) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  const OpParts matmul = row_of(profile, "matmul").parts.value();
  EXPECT_DOUBLE_EQ(matmul.dispatch, 1e-6);
  EXPECT_DOUBLE_EQ(matmul.inference, 2e-6);
  EXPECT_DOUBLE_EQ(matmul.allocation, 3e-6);
  EXPECT_NEAR(matmul.kernel, 44e-6, 1e-15);
  const OpParts full = row_of(profile, "full").parts.value();  // probed at 4 us, it took 1
  EXPECT_NEAR(full.dispatch, 0.75e-6, 1e-15);
  EXPECT_NEAR(full.allocation, 0.25e-6, 1e-15);
  EXPECT_DOUBLE_EQ(full.kernel, 0);
  EXPECT_EQ(row_of(profile, "exp").parts, std::nullopt);
}

TEST(AlignedProfile, AnEmptySide) {
  ProfileInput input = sample();
  input.arms[1] = {"graph", {}, {}, 0, 0};
  const AlignedProfile profile = align(input, ProfileBy::op);
  expect_sums(profile);
  EXPECT_EQ(row_of(profile, "matmul").arms[1].seconds, std::nullopt);
  EXPECT_DOUBLE_EQ(profile.gap(1), 120e-6);
  EXPECT_THAT(render_profile(profile), HasSubstr("only in eager"));
  input.arms[0] = input.arms[1];
  input.ops.clear();
  const AlignedProfile nothing = align(input, ProfileBy::op);
  EXPECT_THAT(nothing.rows, SizeIs(1)) << "outside ops: 0 s";
  EXPECT_EQ(share_of_gap(nothing, nothing.rows[0], 1), std::nullopt);
  EXPECT_THAT(render_profile(nothing), HasSubstr("all"));
}

TEST(AlignedProfile, AViewThatHasTimeIsACopy) {
  ProfileInput input = sample();
  input.arms[1].fates[1] = {Fate::view};
  EXPECT_EQ(fates_text(align(input, ProfileBy::op), row_of(align(input, ProfileBy::op), "matmul"), 1), "same kernel");
  input.arms[1].kernels.erase(input.arms[1].kernels.begin());
  const AlignedProfile profile = align(input, ProfileBy::op);
  EXPECT_EQ(fates_text(profile, row_of(profile, "matmul"), 1), "view, no kernel");
}

TEST(AlignedProfile, HostileNamesActNowhere) {
  ProfileInput input = sample();
  const std::string hostile = "a\"b,c\x1b[2J\n\xE2\x80\xAE\t|";
  input.ops[0].op = hostile;
  input.arms[1].fates[2].with = {hostile};
  const AlignedProfile profile = align(input, ProfileBy::op);
  for (const std::string& text : {render_profile(profile), profile_csv(profile)}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xE2\x80\xAE")), Not(HasSubstr("\t")),
                            HasSubstr("\\x1b[2J")));
  }
  const std::string csv = profile_csv(profile);
  EXPECT_THAT(csv, HasSubstr("\"a\"\"b,c\\x1b")) << "quoted once, quotes doubled";
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + std::ssize(profile.rows));
}

TEST(AlignedProfile, JsonReadsBack) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  const Json json = profile_json(profile, 10);
  const auto again = read_profile(json);
  ASSERT_TRUE(again);
  EXPECT_EQ(render_profile(*again), render_profile(profile));
  EXPECT_EQ(profile_json(*again, 10), json);
  EXPECT_NEAR(json["rows"][0]["saved_seconds"].get<double>(), 24e-6, 1e-15);
  EXPECT_NEAR(json["rows"][0]["share"].get<double>(), 24.0 / 50, 1e-9);
  for (const Json& odd :
       {Json(), Json(7), Json{{"arms", 3}}, Json{{"by", "op"}, {"arms", {1, 2}}, {"rows", {{}, 3}}}}) {
    if (const auto read = read_profile(odd)) {
      render_profile(*read);
      profile_csv(*read);
    }
  }
  EXPECT_FALSE(read_profile(Json{{"by", "colour"}, {"arms", {1, 2}}}));
}

TEST(AlignedProfile, RowsBeyondTheMostAreSummedUp) {
  const AlignedProfile profile = align(sample(), ProfileBy::op);
  const std::string text = render_profile(profile, {}, 3);
  EXPECT_THAT(text, AllOf(HasSubstr("and 6 more rows, which save"), Not(HasSubstr("check"))));
}

std::vector<SourceOp> named(const std::vector<std::string>& names) {
  std::vector<SourceOp> ops;
  for (const std::string& name : names) {
    ops.push_back({ops.size() + 1, name, "", "", ""});
  }
  return ops;
}

std::vector<std::uint64_t> aligned_calls(const std::vector<std::string>& applied, const std::vector<std::string>& ops,
                                         bool repeats = false) {
  return source_ops_of_calls(applied, named(ops), repeats);
}

TEST(SourceOpsOfCalls, AreThoseOfTheCaptureInOrder) {
  EXPECT_THAT(aligned_calls({"add", "mul", "add"}, {"add", "mul", "add"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(aligned_calls({"slice", "add", "mul"}, {"add", "mul"}), ElementsAre(0, 1, 2)) << "making an input";
  EXPECT_THAT(aligned_calls({"add", "exp", "mul", "add"}, {"add", "mul", "log", "add"}), ElementsAre(1, 0, 2, 4));
  EXPECT_THAT(aligned_calls({}, {"add"}), IsEmpty());
  EXPECT_THAT(aligned_calls({"add"}, {}), ElementsAre(0));
}

TEST(SourceOpsOfCalls, LoopsComeBackToTheOpsOfTheirBody) {
  const std::vector<std::string> looped = {"exp", "add", "mul", "add", "mul", "log"};
  EXPECT_THAT(aligned_calls(looped, {"exp", "add", "mul", "while_loop", "log"}, true), ElementsAre(1, 2, 3, 2, 3, 5));
  EXPECT_THAT(aligned_calls(looped, {"exp", "add", "mul", "while_loop", "log"}, false)[3], 0U);
}

/// What a graph's passes make of `(exp(x) * y + 1 - 1 * ...)`, from the observer of its compilation.
struct Observed {
  std::vector<std::pair<std::string, graph::Graph>> stages;
  CompiledOps compiled;
  std::vector<SourceOp> ops;

  const SourceOp& op(const std::string& name, std::size_t which = 0) const {
    for (const SourceOp& each : ops) {
      if (each.op == name && which-- == 0) {
        return each;
      }
    }
    throw std::out_of_range("no op " + name);
  }
  OpFate fate(const std::string& name, std::size_t which = 0) const { return compiled.fates.at(op(name, which).id); }
};

template <class Function, class... Arguments>
Observed observe(Function function, const Arguments&... arguments) {
  Observed result;
  graph::JitOptions options;
  options.pipeline.observe = [&](const std::string& stage, const graph::Graph& graph, bool) {
    result.stages.emplace_back(stage, graph);
  };
  auto compiled = jit(function, options);
  compiled(arguments...);
  std::vector<StageGraph> stages;
  for (const auto& [pass, graph] : result.stages) {
    stages.push_back({pass, &graph});
  }
  result.compiled = compiled_ops(stages);
  note_placed_concats(result.stages.back().second, compiled.compiled()->executable()->values(), result.compiled);
  result.ops = source_ops_of(result.stages.front().second);
  return result;
}

TEST(CompiledOps, SayWhatThePassesMadeOfEachOp) {
  const Tensor x = full({512, 512}, 0.5F);
  const Observed seen = observe(
      [](const Tensor& a) {
        const Tensor once = exp(a);
        const Tensor again = exp(a);                         // cse
        const Tensor unused = log(a);                        // dce
        const Tensor two = full({}, 1.0F) + full({}, 1.0F);  // folded
        return reshape(tanh(once * again + two), {std::int64_t{512} * 512});
      },
      x);
  EXPECT_EQ(seen.fate("log").fate, Fate::removed);
  EXPECT_EQ(seen.fate("log").pass, "dce");
  EXPECT_EQ(seen.fate("full").fate, Fate::folded);
  EXPECT_EQ(seen.fate("exp", 1).fate, Fate::merged);
  EXPECT_EQ(seen.fate("exp", 1).pass, "cse");
  EXPECT_EQ(seen.fate("reshape").fate, Fate::view);
  ASSERT_EQ(seen.fate("mul").fate, Fate::fused);
  EXPECT_THAT(seen.fate("mul").with, ElementsAre("exp", "add", "tanh"));
  EXPECT_EQ(seen.fate("mul").pass, "");
  const std::vector<std::uint64_t> of_kernel = seen.compiled.source_ops_of(seen.op("exp").id, graph::fused_op().name);
  EXPECT_THAT(of_kernel, ElementsAre(seen.op("exp").id, seen.op("mul").id, seen.op("add", 1).id, seen.op("tanh").id));
  EXPECT_THAT(seen.compiled.source_ops_of(999, "exp"), IsEmpty());
  // Alone, exp reads a matrix of 1 MiB and writes one; so does the whole kernel, besides the scalar that it adds.
  constexpr double kMatrix = 512 * 512 * 4;
  EXPECT_EQ(seen.op("exp").work.value().bytes, 2 * kMatrix);
  EXPECT_EQ(seen.op("mul").work.value().bytes, 3 * kMatrix);
  EXPECT_EQ(seen.op("mul").work.value().flops, 512 * 512);
  EXPECT_EQ(seen.op("reshape").work.value().bytes, 0);
  const std::vector<OpWork> work = seen.compiled.work_of(seen.op("exp").id, graph::fused_op().name);
  ASSERT_THAT(work, SizeIs(1));
  EXPECT_NEAR(work[0].bytes, 2 * kMatrix, 8);
  double flops = 0;
  for (const SourceOp& op : {seen.op("exp"), seen.op("mul"), seen.op("add", 1), seen.op("tanh")}) {
    flops += op.work.value().flops;
  }
  EXPECT_EQ(work[0].flops, flops);
  EXPECT_EQ(seen.op("exp").shape, "f32[512,512]");
  EXPECT_THAT(seen.op("exp").line, ::testing::StartsWith("test_aligned_profile.cpp:"));
}

TEST(CompiledOps, AConcatWithoutAnInstructionHasItsPartsInPlace) {
  const Observed seen = observe(
      [](const Tensor& a) {
        return std::vector{concat({exp(a), tanh(a)}, 0), concat({log(a), a}, 0)};
      },
      full({4, 4}, 0.5F));
  EXPECT_EQ(seen.fate("concat").fate, Fate::placed);
  EXPECT_EQ(seen.fate("concat", 1).fate, Fate::kernel) << "it copies the argument";
  EXPECT_EQ(seen.fate("exp").fate, Fate::kernel);
}

TEST(AlignedProfile, SaysWhichPartsAreInPlace) {
  ProfileInput input = sample();
  input.arms[1].fates[1] = {Fate::placed};
  input.arms[1].kernels.erase(input.arms[1].kernels.begin());
  const AlignedProfile profile = align(input, ProfileBy::op);
  EXPECT_EQ(fates_text(profile, row_of(profile, "matmul"), 1), "parts written in place, no kernel");
  EXPECT_EQ(name_of(Fate::placed), "placed");
}

TEST(CompiledOps, AttentionIsWhatItsOpsAreJoinedInto) {
  const Tensor q = full({2, 64, 32}, 0.5F);
  const Observed seen = observe([](const Tensor& a) { return matmul(softmax(matmul(a, transpose(a)) * 0.25), a); }, q);
  for (const char* op : {"softmax", "matmul"}) {
    EXPECT_EQ(seen.fate(op).fate, Fate::joined) << op;
    EXPECT_THAT(seen.fate(op).with, ElementsAre("attention"));
    EXPECT_EQ(seen.fate(op).pass, "attention") << "and not dce, which only clears up";
  }
}

TEST(TracingCost, RawAndCorrected) {
  // 100 zones of 20 ns are 2 us of the 12 us that a traced call takes: what is left is the untraced call's time.
  TracingCost cost{20e-9, 2e-9, {{"eager", 100, 10e-6, 12e-6}, {"graph", 10, 5e-6, 5.05e-6}}};
  cost.arms[0].zone_seconds = cost.arms[1].zone_seconds = 20e-9;
  set_change(cost.arms[0], std::vector<double>{11.5, 12, 12, 12, 13, 12, 12}, std::vector<double>(7, 10.0));
  set_change(cost.arms[1], std::vector<double>{5.05, 5.05}, std::vector<double>{5, 5});
  EXPECT_NEAR(cost.arms[0].change, 0.2, 1e-12);
  EXPECT_NEAR(cost.arms[0].interval.value().low, 0.15, 1e-12) << "the sign interval of seven has its ends";
  EXPECT_EQ(cost.arms[1].interval.has_value(), false);
  EXPECT_NEAR(corrected_seconds(cost.arms[0]), 10e-6, 1e-12);
  const std::string text = tracing_text(cost);
  EXPECT_THAT(text, HasSubstr("a zone takes 20.0 ns (+-1.00 ns)"));
  EXPECT_THAT(text, HasSubstr("tracing eager: a call takes 12.0 us with and 10.0 us without it, +20 % [+15 %, +30 %]; "
                              "less its 100 zones 10.0 us\n"));
  EXPECT_THAT(text, HasSubstr("tracing graph: a call takes 5.05 us with and 5.00 us without it, +1.0 %; less"));
  EXPECT_THAT(text, HasSubstr("more than 10 %"));
  // One call in four: its 100 zones of 12 ns are 0.3 us of a call.
  TracedCalls sampled{"sampled", 100, 10e-6, 10.3e-6};
  sampled.every = 4;
  sampled.zone_seconds = 12e-9;
  set_change(sampled, std::vector<double>(7, 10.3), std::vector<double>(7, 10.0));
  EXPECT_NEAR(corrected_seconds(sampled), 10e-6, 1e-12);
  EXPECT_THAT(
      tracing_text({20e-9, 2e-9, {sampled}}),
      HasSubstr("tracing sampled: one call in 4 is traced: 10.3 us with and 10.0 us without it, +3.0 % [+3.0 %, "
                "+3.0 %]; less its 100 zones, 12.0 ns each, 10.0 us\n"));
  cost.arms.erase(cost.arms.begin());
  EXPECT_THAT(tracing_text(cost), Not(HasSubstr("disturbs")));
  const nlohmann::json json = tracing_json(cost);
  EXPECT_EQ(json["arms"][0]["name"], "graph");
  EXPECT_EQ(json["arms"][0]["change_low"], nullptr);
  EXPECT_EQ(json["arms"][0]["every"], 1);
  EXPECT_NEAR(json["arms"][0]["corrected_seconds"].get<double>(), 4.85e-6, 1e-12);
}

}  // namespace
}  // namespace diptych::reports
