#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

const data::Dataset& all_digits() {
  static const data::Dataset all = data::load_digits(data::digits_path());
  return all;
}

std::vector<Training::Batch> batches_of(const data::Dataset& dataset, const DigitsSchedule& schedule,
                                        std::uint64_t seed) {
  data::Batches source(dataset, schedule.batch, seed);
  std::vector<Training::Batch> batches;
  for (std::int64_t step = 0; step < schedule.steps(); ++step) {
    const data::Dataset batch = source[step];
    batches.push_back({batch.inputs, batch.labels});
  }
  return batches;
}

}  // namespace

Inference::Inference(nn::ModulePtr model, Tensor input) : model_(std::move(model)), input_{std::move(input)} {
  model_->eval();
}

Variables Inference::state() const { return model_->state(); }

Training::Training(nn::ModulePtr model, std::unique_ptr<optim::Optimizer> optimizer, Loss loss,
                   std::vector<Batch> batches)
    : model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      step_(value_and_grad(
          Loss([this, loss = std::move(loss)](const Tensor& x, const Tensor& y) { return loss((*model_)(x), y); }),
          {.arguments = {}, .weights = model_->parameters()})),
      batches_(std::move(batches)) {}

std::span<const Tensor> Training::inputs(std::int64_t step) {
  return batches_[static_cast<std::size_t>(step) % batches_.size()];
}

std::vector<Tensor> Training::body(std::span<const Tensor> inputs) {
  auto result = step_(inputs[0], inputs[1]);
  optimizer_->step(result.weights);
  return {result.value};
}

Variables Training::state() const {
  Variables all = model_->state();
  const Variables& optimizer_state = optimizer_->state();
  all.insert(all.end(), optimizer_state.begin(), optimizer_state.end());
  return all;
}

Tensor Training::evaluate(const Tensor& x) {
  const NoGrad guard;
  model_->eval();
  Tensor output = (*model_)(x);
  model_->train();
  return output;
}

Tensor classification_loss(const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); }

data::Split split_digits(const Shape& shape, std::uint64_t seed) {
  Shape all{all_digits().size()};
  for (const std::int64_t length : shape) {
    all.push_back(length);
  }
  return data::split({reshape(all_digits().inputs, all), all_digits().labels}, DigitsSchedule::kHeldOut, seed);
}

DigitsTraining::DigitsTraining(nn::ModulePtr model, std::unique_ptr<optim::Optimizer> optimizer,
                               const data::Split& digits, const DigitsSchedule& schedule, std::uint64_t seed)
    : Training(std::move(model), std::move(optimizer), classification_loss, batches_of(digits.train, schedule, seed)),
      held_out_(digits.test) {}

std::vector<Metric> DigitsTraining::metrics() {
  const Tensor hits = equal(argmax(evaluate(held_out_.inputs), -1), held_out_.labels);
  return {{"held-out accuracy", mean(hits).item(), "fraction"}};
}

std::vector<Training::Batch> random_batches(int count, const Shape& inputs, std::int64_t classes, Rng& rng) {
  std::vector<Training::Batch> batches;
  for (int i = 0; i < count; ++i) {
    batches.push_back({rng.normal(inputs), rng.integers({inputs[0]}, 0, classes)});
  }
  return batches;
}

}  // namespace diptych::workloads
