// Every workload but the costly ones (suites_test.cpp) under every arm: the same bits from the same seed, others from
// another.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/short_run.h"
#include "tests/workloads/costly.h"
#include "workloads/arms/arm.h"

namespace diptych::workloads {
namespace {

/// A few steps; of the costly ones, as many as the harness checks.
std::int64_t steps_of(const Workload& workload) { return std::min<std::int64_t>(workload.check_steps, 4); }

std::vector<Tensor> run_steps(ArmInstance& instance, std::int64_t steps) {
  std::vector<Tensor> all;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Tensor& output : instance.call(step)) {
      all.push_back(output);
    }
  }
  for (const Variable& variable : instance.program().state()) {
    all.push_back(variable.value());
  }
  return all;
}

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(a[i], b[i])) << "tensor " << i;
  }
}

bool all_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), bitwise_equal);
}

class EveryWorkload : public ::testing::TestWithParam<std::string> {
 protected:
  const Workload& workload() const { return *find_workload(GetParam()); }
};

TEST_P(EveryWorkload, ArmsAgreeToTheBitAndSeedsMatter) {
  std::vector<std::vector<Tensor>> by_seed;
  for (const std::uint64_t seed : {1U, 20260U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ArmInstance eager(workload(), all_arms()[0], seed);
    by_seed.push_back(run_steps(eager, steps_of(workload())));
    ASSERT_FALSE(by_seed.back().empty());
    if (seed != 1 && diptych::testing::is_short_run()) {
      continue;  // by_seed has what it needs
    }
    for (const Arm& arm : all_arms()) {  // eager once more: two instances of one seed
      SCOPED_TRACE(arm.name);
      ArmInstance instance(workload(), arm, seed);
      const std::vector<Tensor> results = run_steps(instance, steps_of(workload()));
      if (arm.exact) {
        expect_equal(by_seed.back(), results);
      } else {
        EXPECT_EQ(by_seed.back().size(), results.size());
      }
      EXPECT_EQ(instance.compiled() != nullptr, arm.pipeline.has_value());
    }
  }
  EXPECT_FALSE(all_equal(by_seed[0], by_seed[1]));
}

TEST_P(EveryWorkload, ExactMetricsRepeat) {
  if (diptych::testing::is_short_run()) {
    GTEST_SKIP() << "counts are those of the build without sanitizers; with DIPTYCH_EVERY_VALUE=1 this runs here too";
  }
  for (const Arm& arm : all_arms()) {
    SCOPED_TRACE(arm.name);
    std::vector<ExactMetrics> counted;
    for (int i = 0; i < 2; ++i) {
      ArmInstance instance(workload(), arm, 1);
      instance.call(0);
      counted.push_back(instance.count(0));
      counted.push_back(instance.count(1));
    }
    for (const ExactMetrics& metrics : counted) {
      EXPECT_EQ(metrics.nodes, counted[0].nodes);
      EXPECT_EQ(metrics.dispatches, counted[0].dispatches);
      EXPECT_EQ(metrics.allocations, counted[0].allocations);
      EXPECT_EQ(metrics.peak_bytes, counted[0].peak_bytes);
      EXPECT_EQ(metrics.planned_peak_bytes, counted[0].planned_peak_bytes);
      EXPECT_EQ(metrics.lower_bound_bytes, counted[0].lower_bound_bytes);
      EXPECT_GT(metrics.dispatches, 0);
      EXPECT_GE(metrics.peak_bytes, 0);
      if (metrics.planned_peak_bytes) {
        EXPECT_GE(*metrics.planned_peak_bytes, *metrics.lower_bound_bytes);
        EXPECT_LE(static_cast<double>(*metrics.planned_peak_bytes),
                  1.05 * static_cast<double>(*metrics.lower_bound_bytes));
      }
    }
  }
}

TEST_P(EveryWorkload, CompilesOnce) {
  if (diptych::testing::is_short_run()) {
    GTEST_SKIP() << "the arms have been compiled and run before; with DIPTYCH_EVERY_VALUE=1 this runs here too";
  }
  for (const Arm& arm : all_arms()) {
    ArmInstance instance(workload(), arm, 1);
    EXPECT_EQ(instance.compile_seconds(), 0);
    for (std::int64_t step = 0; step < 2; ++step) {
      instance.call(step);
    }
    if (arm.pipeline) {
      EXPECT_THAT(instance.compiled()->ledger(), ::testing::SizeIs(1)) << arm.name;
      EXPECT_GT(instance.compile_seconds(), 0);
    }
  }
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& workload : all_workloads()) {
    names.push_back(workload.name);
  }
  return names;
}

std::vector<std::string> light_names() {
  std::vector<std::string> names = workload_names();
  std::erase_if(names, [](const std::string& name) { return testing::is_costly(*find_workload(name)); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Suites, EveryWorkload, ::testing::ValuesIn(light_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// 50 x tanh(z + y) is 100 ops; replay launches as many kernels as eager, and a plan leaves only the output to allocate.
TEST(ExactMetrics, OfTheDispatchChainAreWhatTheProgramSays) {
  const Workload& workload = *find_workload("micro/dispatch");
  std::vector<ExactMetrics> by_arm;
  for (const char* arm : {"eager", "replay", "graph", "eager-pipelined"}) {
    ArmInstance instance(workload, *find_arm(arm), 1);
    instance.call(0);
    by_arm.push_back(instance.count(0));
  }
  EXPECT_EQ(by_arm[0].dispatches, 100);
  EXPECT_EQ(by_arm[1].dispatches, 100);
  EXPECT_EQ(by_arm[1].nodes, 100);
  EXPECT_EQ(by_arm[0].nodes, std::nullopt);
  EXPECT_LT(by_arm[2].allocations, by_arm[0].allocations);
  EXPECT_EQ(by_arm[3].dispatches, 100);
  EXPECT_EQ(by_arm[3].allocations, by_arm[0].allocations);
  EXPECT_GT(by_arm[3].peak_bytes, by_arm[0].peak_bytes) << "what is ahead is in use";
}

TEST(Workloads, NamesAreUniqueAndSuitesKnown) {
  std::vector<std::string> names = workload_names();
  for (const Workload& workload : all_workloads()) {
    EXPECT_TRUE(workload.name.starts_with(workload.suite + "/")) << workload.name;
    EXPECT_THAT(suite_names(), ::testing::Contains(workload.suite));
    EXPECT_EQ(find_workload(workload.name), &workload);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(find_workload("no/such"), nullptr);
  EXPECT_EQ(find_arm("no-such"), nullptr);
}

}  // namespace
}  // namespace diptych::workloads
