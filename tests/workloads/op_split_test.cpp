// What eager does for its ops, part by part, on programs whose parts are known.

#include "workloads/harness/probes/op_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/trace_points.h"
#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "tests/support/speed_bound.h"
#include "workloads/harness/probes/op_clock.h"
#include "workloads/harness/probes/op_list.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

using diptych::testing::expect_bounds;
using diptych::testing::Side;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// `ops` times tanh on `side` x `side`, once reshaped, with or without its gradient.
class Chain final : public Program {
 public:
  Chain(int ops, std::int64_t side, bool gradient) : ops_(ops), gradient_(gradient), inputs_{full({side, side}, 0.5)} {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    const auto chain = [this](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < ops_; ++i) {
        y = tanh(y);
      }
      return y;
    };
    if (gradient_) {
      return {grad([&](const Tensor& x) { return sum(chain(x)); })(inputs[0])};
    }
    return {reshape(chain(inputs[0]), {inputs[0].numel()})};
  }

 private:
  int ops_;
  bool gradient_;
  std::array<Tensor, 1> inputs_;
};

Workload chain(int ops, std::int64_t side, bool gradient) {
  return {
      .name = "test/chain", .suite = "test", .title = "tanh after tanh", .unit = "call", .make = [=](std::uint64_t) {
        return std::make_unique<Chain>(ops, side, gradient);
      }};
}

json split(const Workload& workload, double budget = 0.05) {
  ArmInstance eager(workload, *find_arm("eager"), 1);
  ArmInstance replay(workload, *find_arm("replay"), 1);
  eager.call(0);
  replay.call(0);
  const auto make = [&](const Arm& arm) { return std::make_unique<ArmInstance>(workload, arm, 1); };
  return split_ops(eager, replay, make, budget);
}

TEST(OpSplit, CountsOpsTapeAndKinds) {
  const json plain = split(chain(40, 4, false));
  ASSERT_FALSE(plain.contains("reason")) << plain;
  EXPECT_EQ(plain["ops"], 41);
  EXPECT_EQ(plain["recorded"], 0);
  EXPECT_EQ(plain["backward_seconds"], 0);
  ASSERT_THAT(plain["kinds"], SizeIs(2));
  EXPECT_EQ(plain["kinds"][0]["op"], "tanh");
  EXPECT_EQ(plain["kinds"][0]["calls"], 40);
  EXPECT_EQ(plain["kinds"][1]["op"], "reshape");
  const json taped = split(chain(40, 4, true));
  EXPECT_EQ(taped["recorded"], 42) << "40 tanh, a sum, and the watched input";
  EXPECT_GT(taped["backward_seconds"], 0);
  EXPECT_GT(taped["taped_seconds"], taped["untaped_seconds"]);
}

/// A round's value at `index`.
auto value_at(std::size_t index) {
  return [index](std::span<const double> values) { return values[index]; };
}

// A loop around ops has next to no code of its own: the list takes what the program takes, with kernels and without.
TEST(OpSplitFigures, PartsExplainAProgramOfNothingButOps) {
  const auto round = [] {
    const json parts = split(chain(200, 4, false));
    const auto part = [&](const char* name) { return parts[name].get<double>(); };
    return std::vector<double>{part("list_seconds") / part("eager_seconds"),
                               part("hollow_list_seconds") / part("hollow_seconds"),
                               (part("inference_seconds") + part("allocation_seconds")) / part("hollow_list_seconds"),
                               part("inference_seconds") / part("allocation_seconds")};
  };
  expect_bounds(
      round, {{.what = "the list", .limit = 1.25, .figure = value_at(0), .unit = "of eager"},
              {.what = "the list", .limit = 0.75, .figure = value_at(0), .unit = "of eager", .side = Side::at_least},
              {.what = "the list without kernels", .limit = 1.25, .figure = value_at(1), .unit = "of eager"},
              {.what = "the list without kernels",
               .limit = 0.75,
               .figure = value_at(1),
               .unit = "of eager",
               .side = Side::at_least},
              {.what = "no part counted twice", .limit = 1, .figure = value_at(2), .unit = "of the list"},
              {.what = "the parts", .limit = 0.3, .figure = value_at(2), .unit = "of the list", .side = Side::at_least},
              {.what = "inference", .limit = 1, .figure = value_at(3), .unit = "of allocation"}});
}

// What eager does besides kernels does not depend on how long they take: 5 ops on 4 x 4 and on 512 x 512.
TEST(OpSplitFigures, WithoutKernelsTheirSizeDoesNotMatter) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under AddressSanitizer, freeing memory takes as long as there are bytes; other builds run this test";
#endif
  const auto round = [] {
    const json large = split(chain(5, 512, false), 0.1);
    return std::vector<double>{
        large["hollow_seconds"].get<double>() / split(chain(5, 4, false))["hollow_seconds"].get<double>(),
        large["eager_seconds"].get<double>() / large["hollow_seconds"].get<double>()};
  };
  expect_bounds(
      round,
      {{.what = "eager without kernels", .limit = 1.6, .figure = value_at(0), .unit = "of that of small tensors"},
       {.what = "with kernels", .limit = 100, .figure = value_at(1), .unit = "of it", .side = Side::at_least}});
}

TEST(WithoutKernels, OpsDoEverythingButCompute) {
  const Tensor x = full({64, 64}, 3.0);
  const Tensor y = copy(x);
  const std::uint64_t dispatches = thread_context.dispatches;
  auto idle = jit([](const Tensor& v) { return v + v; });
  {
    const WithoutKernels without;
    EXPECT_EQ((x + y).shape(), x.shape());
    EXPECT_EQ(matmul(x, y).shape(), x.shape());
    EXPECT_EQ(idle(x).shape(), x.shape());
    EXPECT_EQ(cast(x, DType::int32).dtype(), DType::int32);
  }
  EXPECT_GT(thread_context.dispatches, dispatches);
  EXPECT_EQ(max(x + y).item(), 6.0);
  EXPECT_EQ(min(matmul(x, y)).item(), 64 * 9.0);
}

/// Spins between its ops, before its backward pass and after it.
class Spinning final : public Program {
 public:
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    auto gradient = grad([](const Tensor& x) {
      Tensor y = tanh(x);
      spin();
      return sum(tanh(y));
    })(inputs[0]);
    spin();
    return {neg(gradient)};
  }
  static constexpr double kSpin = 50e-6;

 private:
  static void spin() {
    for (const double start = steady_seconds(); steady_seconds() < start + kSpin;) {
    }
  }
  std::array<Tensor, 1> inputs_{full({4}, 0.5)};
};

TEST(OpSplitFigures, WhatTheProgramDoesBetweenItsOpsIsItsOwn) {
  const Workload workload = {
      .name = "test/spinning", .suite = "test", .title = "spins", .unit = "call", .make = [](std::uint64_t) {
        return std::make_unique<Spinning>();
      }};
  const auto round = [&] {
    const json parts = split(workload);
    EXPECT_FALSE(parts.contains("reason")) << parts;
    const double program = parts["hollow_seconds"].get<double>() - parts["hollow_list_seconds"].get<double>() -
                           parts["backward_seconds"].get<double>();
    return std::vector<double>{program / Spinning::kSpin, parts["backward_seconds"].get<double>() / Spinning::kSpin};
  };
  expect_bounds(
      round, {{.what = "between its ops", .limit = 1.8, .figure = value_at(0), .unit = "spins", .side = Side::at_least},
              {.what = "between its ops", .limit = 2.2, .figure = value_at(0), .unit = "spins"},
              {.what = "the pass, outside of which it spins", .limit = 0.2, .figure = value_at(1), .unit = "spins"}});
}

TEST(OpClock, FindsThePasses) {
  const Tensor x = full({4}, 0.5);
  const auto call = [&] {
    const Tensor first = grad([](const Tensor& v) { return sum(tanh(v)); })(x);  // 2 ops, then the pass
    grad([](const Tensor& v) { return sum(exp(v)); })(neg(first));
  };
  call();
  const std::uint64_t before = thread_context.dispatches;
  const PassTimes passes = time_passes(call);
  const std::size_t ops = thread_context.dispatches - before;
  ASSERT_THAT(passes.ops, SizeIs(2));
  EXPECT_EQ(passes.ops[0].begin, 2);
  EXPECT_EQ(passes.ops[1].begin, passes.ops[0].end + 3) << "neg, exp, sum";
  EXPECT_EQ(passes.ops[1].end, ops);
  EXPECT_LT(passes.seconds, passes.call_seconds);
  EXPECT_LT(passes.trace_points_in, passes.trace_points);
  EXPECT_EQ(trace::hooks(), nullptr);
}

TEST(OpSplitFigures, LargeTensorsAreAllKernel) {
  const auto round = [] {
    const json parts = split(chain(6, 512, false), 0.1);
    const double list = parts["list_seconds"];
    return std::vector<double>{parts["kernel_seconds"].get<double>() / list,
                               parts["hollow_list_seconds"].get<double>() / list};
  };
  expect_bounds(
      round, {{.what = "kernels", .limit = 0.8, .figure = value_at(0), .unit = "of the list", .side = Side::at_least},
              {.what = "all else", .limit = 0.05, .figure = value_at(1), .unit = "of the list"}});
}

TEST(OpSplit, EffectsAndOtherGraphsHaveAReason) {
  class Nested final : public Program {
   public:
    std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
    std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {inner_(inputs[0])}; }

   private:
    static Tensor twice(const Tensor& x) { return tanh(tanh(x)); }
    std::array<Tensor, 1> inputs_{full({4}, 0.5)};
    graph::Jit<Tensor (*)(const Tensor&)> inner_ = jit(&Nested::twice);
  };
  const Workload nested = {
      .name = "test/nested", .suite = "test", .title = "a graph in eager", .unit = "call", .make = [](std::uint64_t) {
        return std::make_unique<Nested>();
      }};
  EXPECT_THAT(split(nested)["reason"].get<std::string>(), HasSubstr("eager applies 0 ops, the captured graph has 2"));
}

// Running the parts leaves the program as it was: every value is computed again from the same inputs.
TEST(OpList, PartsLeaveTheProgramAlone) {
  const Workload& workload = *find_workload("mlp/digits");
  ArmInstance replay(workload, *find_arm("replay"), 1);
  replay.call(0);
  std::vector<Tensor> before;
  for (const Variable& variable : replay.program().state()) {
    before.push_back(copy(variable.value()));
  }
  OpList list(*replay.compiled()->graph(), replay.program().inputs(0));
  for (int i = 0; i < 2; ++i) {
    list.run_eager();
    list.run_kernels();
    list.run_inference();
    list.run_allocation();
    list.run_first(list.run_recorded(14));
    for (const OpList::Kind& kind : list.kinds()) {
      list.apply_kind(kind);
      list.run_kernels_of(kind);
    }
  }
  std::size_t i = 0;
  for (const Variable& variable : replay.program().state()) {
    EXPECT_TRUE(bitwise_equal(before[i++], variable.value()));
  }
}

// Each of the dozen probes takes about as long as the call: a quick run would spend its time here.
TEST(OpSplit, ACallThatIsLongerThanTheBudgetIsNotTakenApart) {
  const json result = split(chain(4, 256, false), 1e-6);
  EXPECT_THAT(result["reason"].get<std::string>(), HasSubstr("--standard"));
  EXPECT_THAT(result, SizeIs(1));
}

}  // namespace
}  // namespace diptych::workloads
