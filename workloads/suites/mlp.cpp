// Training steps of multi-layer perceptrons: a classifier of real digits, and one wide layer.

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

constexpr DigitsSchedule kMlpSchedule{.batch = 64, .epochs = 40};

nn::ModulePtr linear(std::int64_t inputs, std::int64_t outputs, Rng& rng) {
  return std::make_shared<nn::Linear>(inputs, outputs, rng);
}

std::unique_ptr<Program> mlp_digits(std::uint64_t seed) {
  Rng rng(seed);
  auto model = std::make_shared<nn::Sequential>(
      std::vector<nn::ModulePtr>{linear(64, 128, rng), relu(), linear(128, 64, rng), relu(), linear(64, 10, rng)});
  auto optimizer = std::make_unique<optim::Adam>(model->parameters(), 2e-3);
  return std::make_unique<DigitsTraining>(model, std::move(optimizer), split_digits({64}, seed), kMlpSchedule, seed);
}

std::unique_ptr<Program> simplenet(std::uint64_t seed) {
  constexpr std::int64_t kWidth = 1024;
  constexpr std::int64_t kBatch = 32;
  Rng rng(seed);
  auto model = std::make_shared<nn::Sequential>(std::vector<nn::ModulePtr>{linear(kWidth, kWidth, rng), relu()});
  auto optimizer = std::make_unique<optim::SGD>(model->parameters(), 0.1, 0.9);
  const Training::Batch batch{rng.normal({kBatch, kWidth}), rng.normal({kBatch, kWidth})};
  return std::make_unique<Training>(
      model, std::move(optimizer), [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); },
      std::vector{batch});
}

}  // namespace

std::vector<Workload> mlp_suite() {
  return {
      {.name = "mlp/digits",
       .suite = "mlp",
       .title = "Digits classifier 64-128-64-10, training step, batch 64, Adam",
       .unit = "training step",
       .in_default_set = true,
       .check_steps = kMlpSchedule.steps(),
       .targets = {{"held-out accuracy", 0.95}},
       .make = mlp_digits},
      {.name = "mlp/simplenet",
       .suite = "mlp",
       .title = "Dense 1024 -> 1024 + ReLU, MSE, training step, batch 32, momentum 0.9",
       .unit = "training step",
       .in_default_set = true,
       .check_steps = 3,
       .make = simplenet},
  };
}

}  // namespace diptych::workloads
