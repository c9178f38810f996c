// Training steps of multi-layer perceptrons: a classifier of real digits, and one wide layer.

#include "framework/diptych.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

/// Forward, backward and update of a model by a loss; the same code in every arm.
class Training : public Program {
 public:
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    auto result = step_(inputs[0], inputs[1]);
    optimizer_->step(result.weights);
    return {result.value};
  }
  Variables state() const override {
    Variables all = model_->parameters();
    const Variables& optimizer_state = optimizer_->state();
    all.insert(all.end(), optimizer_state.begin(), optimizer_state.end());
    return all;
  }

 protected:
  using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;

  void start(nn::ModulePtr model, std::unique_ptr<optim::Optimizer> optimizer, Loss loss) {
    model_ = std::move(model);
    optimizer_ = std::move(optimizer);
    step_ = value_and_grad(
        Loss([this, loss = std::move(loss)](const Tensor& x, const Tensor& y) { return loss((*model_)(x), y); }),
        {.arguments = {}, .weights = model_->parameters()});
  }

  nn::ModulePtr model_;

 private:
  std::unique_ptr<optim::Optimizer> optimizer_;
  using Step = ValueAndGradFunction<Loss>;
  Step step_{Loss(), {}, {}};
};

class Digits final : public Training {
 public:
  static constexpr std::int64_t kBatch = 64;
  static constexpr std::int64_t kEpochs = 40;
  static constexpr double kHeldOut = 0.2;
  static constexpr std::int64_t kStepsPerEpoch = (1797 - 359) / kBatch;  // 359 of 1,797 digits are held out

  explicit Digits(std::uint64_t seed) : split_(data::split(digits(), kHeldOut, seed)) {
    Rng rng(seed);
    const auto linear = [&](int inputs, int outputs) { return std::make_shared<nn::Linear>(inputs, outputs, rng); };
    const auto relu = [] { return std::make_shared<nn::ReLU>(); };
    auto model = std::make_shared<nn::Sequential>(
        std::vector<nn::ModulePtr>{linear(64, 128), relu(), linear(128, 64), relu(), linear(64, 10)});
    auto optimizer = std::make_unique<optim::Adam>(model->parameters(), 2e-3);
    start(model, std::move(optimizer),
          [](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); });
    data::Batches batches(split_.train, kBatch, seed);
    for (std::int64_t step = 0; step < kEpochs * batches.per_epoch(); ++step) {
      const data::Dataset batch = batches[step];
      batches_.push_back({batch.inputs, batch.labels});
    }
  }

  std::span<const Tensor> inputs(std::int64_t step) override {
    return batches_[static_cast<std::size_t>(step) % batches_.size()];
  }

  std::vector<Metric> metrics() override {
    const NoGrad guard;
    const Tensor hits = equal(argmax((*model_)(split_.test.inputs), -1), split_.test.labels);
    return {{"held-out accuracy", mean(hits).item(), "fraction"}};
  }

 private:
  static const data::Dataset& digits() {
    static const data::Dataset all = data::load_digits(data::digits_path());
    return all;
  }

  data::Split split_;
  std::vector<std::array<Tensor, 2>> batches_;
};

class SimpleNet final : public Training {
 public:
  explicit SimpleNet(std::uint64_t seed) {
    constexpr std::int64_t kWidth = 1024;
    constexpr std::int64_t kBatch = 32;
    Rng rng(seed);
    auto model = std::make_shared<nn::Sequential>(
        std::vector<nn::ModulePtr>{std::make_shared<nn::Linear>(kWidth, kWidth, rng), std::make_shared<nn::ReLU>()});
    auto optimizer = std::make_unique<optim::SGD>(model->parameters(), 0.1, 0.9);
    start(model, std::move(optimizer),
          [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); });
    batch_ = {rng.normal({kBatch, kWidth}), rng.normal({kBatch, kWidth})};
  }

  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return batch_; }

 private:
  std::array<Tensor, 2> batch_;
};

}  // namespace

std::vector<Workload> mlp_suite() {
  return {
      {.name = "mlp/digits",
       .suite = "mlp",
       .title = "Digits classifier 64-128-64-10, training step, batch 64, Adam",
       .unit = "training step",
       .check_steps = Digits::kEpochs * Digits::kStepsPerEpoch,
       .targets = {{"held-out accuracy", 0.95}},
       .make = [](std::uint64_t seed) { return std::make_unique<Digits>(seed); }},
      {.name = "mlp/simplenet",
       .suite = "mlp",
       .title = "Dense 1024 -> 1024 + ReLU, MSE, training step, batch 32, momentum 0.9",
       .unit = "training step",
       .check_steps = 3,
       .make = [](std::uint64_t seed) { return std::make_unique<SimpleNet>(seed); }},
  };
}

}  // namespace diptych::workloads
