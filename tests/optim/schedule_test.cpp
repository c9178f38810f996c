// Schedules against values worked out by hand, and PyTorch's recurrences.

#include "framework/optim/schedule.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych::optim {
namespace {

TEST(StepLR, DropsEveryStepSize) {
  const StepLR schedule{.lr = 0.05, .step_size = 30};  // the example of PyTorch's page
  EXPECT_DOUBLE_EQ(schedule(0), 0.05);
  EXPECT_DOUBLE_EQ(schedule(29), 0.05);
  EXPECT_DOUBLE_EQ(schedule(30), 0.005);
  EXPECT_DOUBLE_EQ(schedule(59), 0.005);
  EXPECT_DOUBLE_EQ(schedule(60), 0.0005);
}

TEST(CosineAnnealingLR, FollowsPyTorchsRecurrence) {
  const CosineAnnealingLR schedule{.lr = 0.8, .T_max = 40, .eta_min = 0.05};
  double rate = 0.8;
  for (int t = 1; t < 40; ++t) {
    const auto wave = [](int step) { return 1 + std::cos(std::numbers::pi * step / 40); };
    rate = wave(t) / wave(t - 1) * (rate - 0.05) + 0.05;
    EXPECT_NEAR(schedule(t), rate, 1e-12) << t;
  }
  EXPECT_NEAR(schedule(20), 0.425, 1e-12);
  EXPECT_NEAR(schedule(40), 0.05, 1e-12);
  EXPECT_NEAR(schedule(1000), 0.05, 1e-12);
}

TEST(LinearLR, WarmsUpAndStays) {
  const LinearLR schedule{.lr = 0.05, .start_factor = 0.5, .total_iters = 4};  // the example of PyTorch's page
  const double expected[] = {0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05};
  for (int t = 0; t < 6; ++t) {
    EXPECT_NEAR(schedule(t), expected[t], 1e-15) << t;
  }
}

TEST(SequentialLR, CountsEachPartFromItsMilestone) {
  const SequentialLR schedule({LinearLR{1, 0.1, 1, 3}, CosineAnnealingLR{1, 4}, StepLR{0.5, 2, 0.5}}, {3, 7});
  const double expected[] = {0.1, 0.4, 0.7, 1, (1 + std::sqrt(0.5)) / 2, 0.5, (1 - std::sqrt(0.5)) / 2, 0.5, 0.5, 0.25};
  for (int t = 0; t < 10; ++t) {
    EXPECT_NEAR(schedule(t), expected[t], 1e-15) << t;
  }
}

TEST(Schedules, RefuseWhatMakesNoSense) {
  EXPECT_THROW((StepLR{0.1, 0}(1)), Error);
  EXPECT_THROW((CosineAnnealingLR{0.1, 0}(1)), Error);
  EXPECT_THROW((LinearLR{.lr = 0.1, .total_iters = -1}(1)), Error);
  EXPECT_THROW(SequentialLR({StepLR{0.1, 1}}, {3}), Error);
  EXPECT_THROW(SequentialLR({StepLR{0.1, 1}, StepLR{0.1, 1}, StepLR{0.1, 1}}, {3, 3}), Error);
}

TEST(Scheduler, ChangesTheRateOfEveryStepAndCompilesOnce) {
  const Variable p(Tensor::scalar(0.0), "p");
  SGD optimizer({p}, 123);
  Scheduler scheduler(optimizer, CosineAnnealingLR{1, 50});
  auto step = jit([&](const Tensor& g) {
    optimizer.step(std::span(&g, 1));
    return p.value();
  });
  double expected = 0;
  for (int t = 0; t < 60; ++t) {
    expected -= (1 + std::cos(std::numbers::pi * std::min(t, 50) / 50)) / 2;
    EXPECT_NEAR(step(Tensor::scalar(1.0)).item(), expected, 1e-12);
    scheduler.step();
  }
  EXPECT_EQ(step.compiled()->ledger().size(), 1U);
  EXPECT_EQ(scheduler.last_step(), 60);
}

TEST(Scheduler, InGraphModeCompilesOnceToo) {
  const Variable p(Tensor::scalar(0.0F), "p");
  Adam optimizer({p});
  Scheduler scheduler(optimizer, LinearLR{.lr = 1, .total_iters = 20});
  set_mode(Mode::graph);
  const Tensor gradient = Tensor::scalar(1.0F);
  std::uint64_t captured = 0;
  for (int t = 0; t < 30; ++t) {
    optimizer.step(std::span(&gradient, 1));
    const std::uint64_t before = thread_context.dispatches;
    optimizer.step(std::span(&gradient, 1));
    captured += thread_context.dispatches - before;
    scheduler.step();
  }
  set_mode(Mode::eager);
  EXPECT_EQ(captured, 0U);
}

TEST(Scheduler, IsRefusedInsideACapturedFunction) {
  SGD optimizer({Variable(zeros({}), "p")}, 1);
  Scheduler scheduler(optimizer, StepLR{1, 1});
  auto step = jit([&](const Tensor& x) {
    scheduler.step();
    return x;
  });
  EXPECT_THROW(step(zeros({})), CaptureError);
  EXPECT_EQ(scheduler.last_step(), 0);
}

TEST(Scheduler, GoesOnFromACheckpointsStep) {
  SGD optimizer({Variable(zeros({}), "p")}, 1);
  const Scheduler scheduler(optimizer, StepLR{1, 10}, 25);
  EXPECT_DOUBLE_EQ(optimizer.learning_rate(), 0.01);
}

}  // namespace
}  // namespace diptych::optim
