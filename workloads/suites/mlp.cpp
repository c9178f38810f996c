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

/// A ranking model's front: categories embedded, numbers beside them, features gated by one another.
class WideFeatures : public nn::Module {
 public:
  explicit WideFeatures(Rng& rng)
      : gate_(add("gate", std::make_shared<nn::Linear>(kFeatures, kFeatures, rng))),
        head_(add("head", std::make_shared<nn::Linear>(kFeatures, 1, rng))) {
    for (int i = 0; i < kTables; ++i) {
      tables_.push_back(add("table" + std::to_string(i), std::make_shared<nn::Embedding>(kCategories, kEmbedded, rng)));
    }
  }

  /// x: [N, kTables + kNumbers], whose first columns are categories
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> features;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i);
      features.push_back((*tables_[i])(cast(squeeze(slice(x, 1, column, column + 1), 1), DType::int64)));
    }
    const Tensor numbers = slice(x, 1, kTables, kTables + kNumbers);
    features.push_back(sign(numbers) * log1p(abs(numbers)));
    const Tensor all = concat(features, 1);
    const Tensor gated = all * sigmoid((*gate_)(all)) + all;
    return squeeze((*head_)(silu(gated)), 1);
  }

  static constexpr std::int64_t kTables = 4;
  static constexpr std::int64_t kNumbers = 32;
  static constexpr std::int64_t kCategories = 1000;

 private:
  static constexpr std::int64_t kEmbedded = 24;
  static constexpr std::int64_t kFeatures = kTables * kEmbedded + kNumbers;
  std::vector<std::shared_ptr<nn::Embedding>> tables_;
  std::shared_ptr<nn::Linear> gate_, head_;
};

std::unique_ptr<Program> wide_features(std::uint64_t seed) {
  constexpr std::int64_t kBatch = 4096;
  Rng rng(seed);
  auto model = std::make_shared<WideFeatures>(rng);
  auto optimizer = std::make_unique<optim::Adam>(model->parameters(), 1e-3);
  const Tensor categories =
      cast(rng.integers({kBatch, WideFeatures::kTables}, 0, WideFeatures::kCategories), DType::float32);
  const Training::Batch batch{concat({categories, rng.normal({kBatch, WideFeatures::kNumbers})}, 1),
                              cast(rng.integers({kBatch}, 0, 2), DType::float32)};
  return std::make_unique<Training>(
      model, std::move(optimizer),
      [](const Tensor& output, const Tensor& target) { return bce_with_logits(output, target); }, std::vector{batch});
}

/// Two views of each of 1,024 things, near each other and far from all others [van den Oord et al. 2018].
class Contrastive final : public Program {
 public:
  explicit Contrastive(std::uint64_t seed) {
    Rng rng(seed);
    inputs_ = {rng.normal({kThings, kLength}), rng.normal({kThings, kLength})};
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    auto result = gradients_(inputs[0], inputs[1]);
    return {result.value, result.arguments[0], result.arguments[1]};
  }

 private:
  using Loss = std::function<Tensor(const Tensor& a, const Tensor& b)>;
  static constexpr std::int64_t kThings = 1024;
  static constexpr std::int64_t kLength = 256;
  static constexpr double kTemperature = 0.07;

  static Tensor normalised(const Tensor& x) { return x / sqrt(sum(square(x), {-1}, true) + 1e-12); }
  static Tensor loss(const Tensor& a, const Tensor& b) {
    const Tensor scores = matmul(normalised(a), transpose(normalised(b), 0, 1)) / kTemperature;
    const Tensor own = unsqueeze(arange(static_cast<double>(kThings), DType::int64), 1);
    const Tensor of_a = gather(log_softmax(scores), 1, own);
    const Tensor of_b = gather(log_softmax(transpose(scores, 0, 1)), 1, own);
    return -(mean(of_a) + mean(of_b)) * 0.5;
  }

  std::array<Tensor, 2> inputs_;
  ValueAndGradFunction<Loss> gradients_ = value_and_grad(Loss(loss), {.arguments = {0, 1}});
};

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
      {.name = "mlp/wide-features",
       .suite = "mlp",
       .title = "Embeddings, concat and gates, training step, batch 4096, Adam",
       .unit = "training step",
       .make = wide_features},
  };
}

std::vector<Workload> loss_suite() {
  return {{.name = "loss/contrastive",
           .suite = "loss",
           .title = "Normalise, scores and log-softmax both ways, 2 x 1024 x 256, with gradients",
           .unit = "call",
           .make = [](std::uint64_t seed) { return std::make_unique<Contrastive>(seed); }}};
}

}  // namespace diptych::workloads
