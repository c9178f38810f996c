// Fused kernels, timed beside what they replace, and left out where they lose.

#include "workloads/harness/probes/fusion_clock.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "tests/workloads/cells.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/cell/cell.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Function = std::function<Tensor(const Tensor&)>;

class OfOneTensor final : public Program {
 public:
  OfOneTensor(const Shape& shape, Function function) : inputs_{full(shape, 0.25)}, function_(std::move(function)) {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {function_(inputs[0])}; }

 private:
  std::array<Tensor, 1> inputs_;
  Function function_;
};

Workload workload_of(const Shape& shape, const Function& function) {
  return {.name = "test/chains", .suite = "test", .title = "chains", .unit = "call", .make = [=](std::uint64_t) {
            return std::make_unique<OfOneTensor>(shape, function);
          }};
}

/// Two chains, apart because a sum over columns stands between them.
Workload chains() {
  return workload_of({200, 300}, [](const Tensor& input) {
    const Tensor x = tanh(exp(input) + 1);
    return neg(square(x) * sum(x, {0}));
  });
}

std::vector<std::string> names(const KernelTiming& timing) {
  std::vector<std::string> all;
  for (const OpDef* op : timing.kernel.ops) {
    all.emplace_back(op->name);
  }
  return all;
}

const passes::PipelineOptions& everything() { return *find_arm("graph")->pipeline; }

/// In the order of the program.
std::vector<KernelTiming> timed_chains() {
  std::vector<KernelTiming> timings = time_fused_kernels(chains(), everything(), 1, 0.01);
  std::sort(timings.begin(), timings.end(),
            [](const KernelTiming& a, const KernelTiming& b) { return a.name() < b.name(); });
  return timings;
}

TEST(FusionClock, TimesEveryKernelBesideWhatItReplaces) {
  const std::vector<KernelTiming> timings = timed_chains();
  ASSERT_THAT(timings, SizeIs(2));
  EXPECT_THAT(names(timings[0]), ElementsAre("exp", "add", "tanh", "square"));
  EXPECT_THAT(names(timings[1]), ElementsAre("mul", "neg"));
  EXPECT_EQ(timings[0].ops(), "exp, add, tanh, square");
  for (const KernelTiming& timing : timings) {
    EXPECT_EQ(timing.pass, "fuse");
    EXPECT_GT(timing.fused_seconds, 0);
    EXPECT_GT(timing.apart_seconds, 0);
    EXPECT_LE(timing.low, timing.ratio);
    EXPECT_LE(timing.ratio, timing.high);
  }
}

TEST(FusionClock, NothingFusedIsNothingTimed) {
  passes::PipelineOptions options = everything();
  options.disabled = {"multi-tensor", "fuse", "epilogue"};
  EXPECT_THAT(time_fused_kernels(chains(), options, 1, 0.01), IsEmpty());
}

TEST(FusionClock, ALossIsOneWhoseWholeIntervalIsAbove) {
  KernelTiming timing;
  timing.low = 1.005;
  timing.ratio = 1.2;
  timing.high = 1.3;
  EXPECT_FALSE(timing.is_loss());
  timing.low = 1.02;
  EXPECT_TRUE(timing.is_loss());
}

// A later process is told which kernels lose: all of its arms are without them, and their bits are checked.
TEST(FusionClock, AVetoedKernelIsNotInTheArms) {
  const Workload workload = chains();
  const auto dispatches = [&](const std::set<graph::ValueId>& vetoed) {
    CellPlan plan;
    plan.workload = &workload;
    plan.arms = {find_arm("eager"), find_arm("graph")};
    plan.settings.rounds = 0;
    plan.settings.veto_losses = true;
    plan.full_check = false;
    plan.vetoed = vetoed;
    const json cell = measure_cell(plan, [](const std::string&) {});
    EXPECT_EQ(cell["validity"]["agree"], true);
    return cell["arms"][1]["exact"]["dispatches"].get<int>();
  };
  const std::vector<KernelTiming> timings = timed_chains();
  ASSERT_THAT(timings, SizeIs(2));
  EXPECT_EQ(dispatches({}), 3);
  EXPECT_EQ(dispatches({timings[0].name()}), 6);
  EXPECT_EQ(dispatches({timings[0].name(), timings[1].name()}), 7);
}

/// Of all passes, as run.json has them.
json refused_of(const Workload& workload) {
  CellPlan plan;
  plan.workload = &workload;
  plan.arms = {find_arm("eager"), find_arm("graph")};
  plan.settings.rounds = 0;
  const json cell = measure_cell(plan, [](const std::string&) {});
  json refused = json::array();
  for (const json& pass : cell["arms"][1]["passes"]) {
    const json groups = pass.value("refused", json::array());
    refused.insert(refused.end(), groups.begin(), groups.end());
  }
  return refused;
}

// Of the two chains: what the sum over columns reads, and what reads the sum.
TEST(FusionClock, EdgesThatWereRefusedStandInTheCellWithTheirReason) {
  const json refused = refused_of(chains());
  std::vector<std::string> edges;
  for (const json& group : refused) {
    edges.push_back(group["producer"].get<std::string>() + " -> " + group["consumer"].get<std::string>() + ": " +
                    group["why"].get<std::string>());
    EXPECT_EQ(group["edges"], 1) << group;
    EXPECT_FALSE(group.contains("nanoseconds")) << group;
  }
  EXPECT_THAT(edges, ::testing::UnorderedElementsAre("tanh -> sum: shape", "square -> mul: cycle", "sum -> mul: shape"))
      << refused;
}

// Results of 64 bytes are found in the cache anyway.
TEST(FusionClock, EdgesThatWouldNotPaySayByHowMuch) {
  const json refused = refused_of(workload_of({4, 4}, [](const Tensor& x) { return exp(exp(exp(x))); }));
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0]["why"], "unprofitable");
  EXPECT_EQ(refused[0]["edges"], 2);
  EXPECT_EQ(refused[0]["nanoseconds"], 4);
}

TEST(FusionClock, WhatAConcatJoinsInPlaceIsNotRefused) {
  const json refused = refused_of(workload_of({200, 300}, [](const Tensor& x) {
    return concat({exp(x), tanh(x)}, 0);
  }));
  EXPECT_THAT(refused, IsEmpty()) << refused;
}

TEST(FusionClock, WhatIsWrittenSaysWhatWasLeftOut) {
  const std::vector<KernelTiming> timings = timed_chains();
  const json written = to_json(timings, {timings[0].name()});
  ASSERT_THAT(written, SizeIs(2));
  EXPECT_EQ(written[0]["value"], timings[0].name());
  EXPECT_EQ(written[0]["vetoed"], true);
  EXPECT_EQ(written[1]["vetoed"], false);
  EXPECT_EQ(written[0]["ops"], timings[0].ops());
}

}  // namespace
}  // namespace diptych::workloads
