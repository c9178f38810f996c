#pragma once

#include "framework/diptych.h"
#include "workloads/workload.h"

/// The shapes that programs of the suites have in common.
namespace diptych::workloads {

/// The forward pass of a model in evaluation mode, on one input.
class Inference : public Program {
 public:
  Inference(nn::ModulePtr model, Tensor input);
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return input_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {(*model_)(inputs[0])}; }
  Variables state() const override;

 private:
  nn::ModulePtr model_;
  std::array<Tensor, 1> input_;
};

/// Forward, backward and update of a model with a loss, on batches {input, target}, again and again; the same code in
/// every arm. A step returns its loss.
class Training : public Program {
 public:
  using Batch = std::array<Tensor, 2>;
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  Training(nn::ModulePtr model, std::unique_ptr<optim::Optimizer> optimizer, Loss loss, std::vector<Batch> batches);
  std::span<const Tensor> inputs(std::int64_t step) override;
  std::vector<Tensor> body(std::span<const Tensor> inputs) override;
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override { return {evaluate(inputs[0])}; }
  std::vector<Tensor> forward_inputs() override { return {inputs(0)[0]}; }
  bool is_forward() const override { return false; }
  Variables state() const override;

 protected:
  /// The model's output in evaluation mode.
  Tensor evaluate(const Tensor& x);

 private:
  nn::ModulePtr model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  ValueAndGradFunction<Loss> step_;
  std::vector<Batch> batches_;
};

inline nn::ModulePtr relu() { return std::make_shared<nn::ReLU>(); }

/// Labels as targets.
Tensor classification_loss(const Tensor& logits, const Tensor& labels);

/// How long a classifier of the digits is trained.
struct DigitsSchedule {
  std::int64_t batch;
  std::int64_t epochs;
  /// 359 of the 1,797 digits are held out.
  static constexpr double kHeldOut = 0.2;
  static constexpr std::int64_t kTrained = 1797 - 359;
  constexpr std::int64_t steps() const { return epochs * (kTrained / batch); }
};

/// The handwritten digits in `shape` (of one image), split by the seed.
data::Split split_digits(const Shape& shape, std::uint64_t seed);

/// A training on the digits; its metric is "held-out accuracy".
class DigitsTraining final : public Training {
 public:
  DigitsTraining(nn::ModulePtr model, std::unique_ptr<optim::Optimizer> optimizer, const data::Split& digits,
                 const DigitsSchedule& schedule, std::uint64_t seed);
  std::vector<Metric> metrics() override;

 private:
  data::Dataset held_out_;
};

/// `count` batches of seeded normal inputs and labels below `classes`.
std::vector<Training::Batch> random_batches(int count, const Shape& inputs, std::int64_t classes, Rng& rng);

}  // namespace diptych::workloads
