// What the machine can do, against what its instruction set allows; what programs have to do, against counts by hand.

#include "workloads/harness/probes/limits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "tests/support/speed_bound.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/probes/arithmetic.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

using diptych::testing::expect_bounds;
using diptych::testing::Side;
using diptych::testing::SpeedBound;
using nlohmann::json;
using ::testing::HasSubstr;

json work_of(const std::string& workload) {
  ArmInstance replay(*find_workload(workload), *find_arm("replay"), 1);
  replay.call(0);
  return analytic_work(*replay.compiled()->graph());
}

template <class Fn>
json work(Fn program, const Tensor& x, const Tensor& y) {
  graph::JitOptions options;
  options.pipeline = passes::PipelineOptions::none();
  auto compiled = jit(program, options);
  compiled(x, y);
  return analytic_work(*compiled.compiled()->graph());
}

// Two operations an element and step of the inner sum; four matrices of f32 move, the product twice.
TEST(AnalyticWork, OfAProductAndASum) {
  const Tensor x = full({3, 5}, 1.0);
  const Tensor y = full({5, 7}, 1.0);
  const json done = work([](const Tensor& a, const Tensor& b) { return matmul(a, b) + 1.0; }, x, y);
  EXPECT_EQ(done["flops"], 2 * 3 * 5 * 7 + 3 * 7);
  EXPECT_EQ(done["compulsory_bytes"], 4 * (15 + 35 + 21));
  EXPECT_GE(done["op_bytes"], 4 * (15 + 35 + 21 + 21 + 21));
}

// The operations of its form in math/power.h; those of an exponential and a logarithm only where they are needed.
TEST(AnalyticWork, OfAPowerIsThatOfItsExponent) {
  const Tensor x = full({3, 5}, 1.0);
  const auto flops_an_element = [&](auto exponent) {
    return work([=](const Tensor& a, const Tensor&) { return pow(a, exponent); }, x, x)["flops"]
               .template get<double>() /
           15;
  };
  EXPECT_EQ(flops_an_element(2), 1);
  for (const auto& [exponent, flops] :
       {std::pair{2.0, 1.0}, {3.0, 2.0}, {4.0, 2.0}, {1.0, 0.0}, {0.0, 0.0}, {0.5, 1.0}, {-0.5, 2.0}, {-1.0, 1.0}}) {
    const double number = exponent;
    EXPECT_EQ(work([=](const Tensor& a, const Tensor&) { return pow(a, full({1}, number)); }, x, x)["flops"],
              15 * flops)
        << exponent;
  }
  EXPECT_GT(flops_an_element(2.5), 20);
  EXPECT_GT(work([](const Tensor& a, const Tensor& b) { return pow(a, b); }, x, x)["flops"].get<double>(), 15 * 20);
}

template <class Fn>
double least(Fn program, const Tensor& x, const Tensor& y) {
  graph::JitOptions options;
  options.pipeline = passes::PipelineOptions::none();
  auto compiled = jit(program, options);
  compiled(x, y);
  return least_operations(*compiled.compiled()->graph());
}

// Neither what is the same in each call, nor what is there twice, nor how a power is computed.
TEST(LeastOperations, AreThoseOfWhatDependsOnTheArguments) {
  const Tensor x = full({3, 5}, 1.0);
  const Tensor y = full({3, 7}, 1.0);
  const Tensor w = full({5, 7}, 1.0);
  const Tensor v = full({7, 7}, 1.0);
  EXPECT_EQ(least([&](const Tensor& a, const Tensor& b) { return pow(matmul(a, matmul(w, v)), b); }, x, y),
            2 * 3 * 5 * 7 + 21);
  EXPECT_EQ(least([&](const Tensor& a, const Tensor&) { return matmul(a, w) + matmul(a, w); }, x, y),
            2 * 3 * 5 * 7 + 21);
  EXPECT_EQ(least([&](const Tensor& a, const Tensor&) { return transpose(reshape(a, {5, 3})); }, x, y), 0);
  EXPECT_EQ(least([&](const Tensor&, const Tensor&) { return exp(w); }, x, y), 0);
}

TEST(AnalyticWork, ViewsMoveNothing) {
  const Tensor x = full({3, 5}, 1.0);
  const json done = work([](const Tensor& a, const Tensor&) { return reshape(a, {15}); }, x, x);
  EXPECT_EQ(done["flops"], 0);
  EXPECT_EQ(done["op_bytes"], 0);
}

// 100 x tanh(z @ y), 32 x 32: 100 GEMMs of 2 * 32^3, and tanh besides.
TEST(AnalyticWork, OfTheRigidReferenceProgram) {
  const double flops = work_of("reference/rigid-32")["flops"];
  const double gemms = 100.0 * 2 * 32 * 32 * 32;
  EXPECT_GT(flops, gemms);
  EXPECT_LT(flops, gemms + 100.0 * 32 * 32 * 60) << "at most 60 operations a tanh";
}

// 64-128-64-10 with batch 64: forward, by the weights, and by the inputs of all layers but the first.
TEST(AnalyticWork, OfTheDigitsTrainingStep) {
  const json done = work_of("mlp/digits");
  const double forward = 2.0 * 64 * (64 * 128 + 128 * 64 + 64 * 10);
  const double by_weight = forward;
  const double by_input = 2.0 * 64 * (128 * 64 + 64 * 10);
  EXPECT_GT(done["flops"].get<double>(), forward + by_weight + by_input);
  EXPECT_LT(done["flops"].get<double>(), 1.3 * (forward + by_weight + by_input)) << "the rest is by element";
  // Weights and two moments each, read and written, and the batch.
  const double state = 4.0 * 3 * (64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
  EXPECT_NEAR(done["compulsory_bytes"].get<double>(), 2 * state + 4.0 * 64 * 64, 2000);
}

TEST(AnalyticWork, ControlFlowHasAReason) {
  const auto twice = [](const Tensor& a, const Tensor&) {
    return cond(
        greater(sum(a), full({}, 0.0)), [&] { return a + 1.0; }, [&] { return a - 1.0; });
  };
  const Tensor x = full({3}, 1.0);
  EXPECT_THAT(work(twice, x, x)["reason"].get<std::string>(), HasSubstr("control flow"));
}

// Two ports, two operations, every cycle: no core does more; and with one port at a fifth of the time on a machine that
// others use too, it does a thirtieth of that. Clocks lie between 0.8 and 6 GHz.
TEST(PeakFlopsFigures, LieBetweenTheFormulasOfSlowAndFastCores) {
  std::vector<Isa> isas;
  std::vector<SpeedBound> bounds;
  for (const auto& [isa, lanes] : {std::pair{Isa::generic, 4}, {Isa::avx2, 8}, {Isa::avx512, 16}}) {
    if (!is_supported(isa)) {
      continue;
    }
    const std::string name = fmt::format("peak of {} lanes", lanes);
    const auto figure = [i = isas.size()](std::span<const double> flops) { return flops[i]; };
    bounds.push_back(
        {.what = name, .limit = 2.0 * 2 * lanes * 6e9, .figure = figure, .unit = "GFLOP/s", .scale = 1e-9});
    bounds.push_back({.what = name,
                      .limit = 2.0 * lanes * 0.8e9 / 8,
                      .figure = figure,
                      .unit = "GFLOP/s",
                      .scale = 1e-9,
                      .side = Side::at_least});
    isas.push_back(isa);
  }
  // A multiply-add on wider vectors is worth more than twice an add on the narrowest.
  if (is_supported(Isa::avx2)) {
    bounds.push_back(
        {.what = "the best peak",
         .limit = 1.5,
         .figure =
             [](std::span<const double> flops) { return *std::max_element(flops.begin(), flops.end()) / flops[0]; },
         .unit = "of the narrowest's",
         .side = Side::at_least});
  }
  const auto round = [&] {
    std::vector<double> flops;
    for (const Isa isa : isas) {
      flops.push_back(peak_flops_per_second(isa));
    }
    return flops;
  };
  expect_bounds(round, bounds);
}

TEST(BandwidthFigures, OfCachesAreAboveThatOfMemory) {
  const auto round = [] {
    return std::vector<double>{read_bytes_per_second(16 << 10, active_isa()),
                               read_bytes_per_second(std::int64_t{64} << 20, active_isa())};
  };
  // The upper bound: two loads of 64 bytes a cycle, and as much again.
  expect_bounds(round, {{.what = "a cache's bandwidth", .limit = 1, .unit = "of memory's", .side = Side::at_least},
                        {.what = "memory's bandwidth",
                         .limit = 2e8,
                         .figure = [](auto rates) { return rates[1]; },
                         .unit = "GB/s",
                         .scale = 1e-9,
                         .side = Side::at_least},
                        {.what = "a cache's bandwidth",
                         .limit = 2.0 * 64 * 2 * 6e9,
                         .figure = [](auto rates) { return rates[0]; },
                         .unit = "GB/s",
                         .scale = 1e-9}});
  EXPECT_GT(read_bytes_per_second(1, active_isa()), 0);
}

// It would be at 1.4 of a limit made of reading alone (Zen 3).
TEST(BandwidthFigures, NoUpdateIsFasterThanTheLimit) {
  constexpr std::int64_t kUpdated = std::int64_t{16} << 20;
  constexpr std::int64_t kUpdatedBytes = kUpdated * static_cast<std::int64_t>(sizeof(float));
  Variable state(full({kUpdated}, 1.0), "state");
  auto step = jit([&](const Tensor& factor) {
    state.assign(state.value() * factor);
    return factor;
  });
  const Tensor factor = full({}, 0.999);
  step(factor);
  const auto round = [&] {
    const double start = steady_seconds();
    step(factor);
    const double moved = 2 * static_cast<double>(kUpdatedBytes) / (steady_seconds() - start);
    return std::vector<double>{moved, best_bytes_per_second(kUpdatedBytes, active_isa())};
  };
  expect_bounds(round, {{.what = "bytes that an update in place moves", .limit = 1.1, .unit = "of the limit"}});
  EXPECT_GT(update_bytes_per_second(1, active_isa()), 0);
}

class CacheFiles {
 public:
  void add(const std::string& index, const std::string& level, const std::string& type, const std::string& size) {
    const auto folder = root_.path() / "sys/devices/system/cpu/cpu0/cache" / index;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "level") << level;
    std::ofstream(folder / "type") << type;
    std::ofstream(folder / "size") << size;
  }
  profiler::SystemFiles files() const { return profiler::SystemFiles(root_.path()); }

 private:
  TemporaryFolder root_{"diptych-caches"};
};

TEST(MemoryLevels, AreThoseOfSysfs) {
  CacheFiles caches;
  caches.add("index0", "1", "Data", "48K");
  caches.add("index1", "1", "Instruction", "32K");
  caches.add("index2", "2", "Unified", "1024K");
  caches.add("index3", "3", "Unified", "32M");
  const std::vector<MemoryLevel> levels = memory_levels(caches.files());
  ASSERT_EQ(levels.size(), 4u);
  EXPECT_EQ(levels[0].name, "L1");
  EXPECT_EQ(levels[0].size, 48 << 10);
  EXPECT_EQ(levels[0].probed, 24 << 10);
  EXPECT_EQ(levels[2].size, 32 << 20);
  EXPECT_EQ(levels[3].name, "memory");
  EXPECT_EQ(levels[3].probed, 64 << 20);
}

TEST(MemoryLevels, SurviveWhatSysfsMaySay) {
  EXPECT_EQ(memory_levels(CacheFiles().files()).size(), 1u);
  CacheFiles strange;
  strange.add("index0", "one", "Data", "48K");
  strange.add("index1", "1", "Data", "many");
  strange.add("index2", "2", "Unified", "0K");
  strange.add("index3", "3", "Unified", "512M");  // a machine's, of which this one has a part
  const std::vector<MemoryLevel> levels = memory_levels(strange.files());
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels[0].name, "memory");
  EXPECT_EQ(levels[0].probed, 128 << 20);
}

}  // namespace
}  // namespace diptych::workloads
