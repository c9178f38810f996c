// Measured forms of the reference programs (suites/reference/).

#include <cmath>

#include <fmt/format.h>

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

/// The classic demonstration of graph mode: z = tanh(z @ y), a hundred times, on unit normal inputs. With these inputs
/// it is chaotic: a difference in one bit becomes a different result after a few rounds, so only bitwise equal arms
/// pass its check.
class Rigid final : public Program {
 public:
  static constexpr int kRounds = 100;

  Rigid(std::uint64_t seed, std::int64_t width) {
    Rng rng(seed);
    inputs_ = {rng.normal({width, width}), rng.normal({width, width})};
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    Tensor z = inputs[0];
    for (int round = 0; round < kRounds; ++round) {
      z = tanh(matmul(z, inputs[1]));
    }
    return {z};
  }

 private:
  std::array<Tensor, 2> inputs_;
};

/// A transformer block whose attention core is a separate graph, gradients included: under "eager" the program runs op
/// by op around a compiled core; under the other arms the core is part of their graph.
class Mixed final : public Program {
 public:
  explicit Mixed(std::uint64_t seed) : rng_(seed), block_(rng_), input_{rng_.normal({kBatch, kLength, kWidth})} {
    gradients_.emplace(value_and_grad(Function([this](const Tensor& x) { return mean(square(block_(x))); }),
                                      {.arguments = {0}, .weights = block_.parameters()}));
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return input_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    auto result = (*gradients_)(inputs[0]);
    std::vector<Tensor> all{result.value, result.arguments[0]};
    all.insert(all.end(), result.weights.begin(), result.weights.end());
    return all;
  }

 private:
  static constexpr std::int64_t kBatch = 2, kLength = 64, kWidth = 128, kHeads = 4, kHeadWidth = kWidth / kHeads;

  static Tensor attention_core(const Tensor& q, const Tensor& k, const Tensor& v) {
    const double scale = 1 / std::sqrt(static_cast<double>(kHeadWidth));
    return matmul(softmax(matmul(q * scale, transpose(k))), v);
  }

  struct Block final : nn::Module {
    explicit Block(Rng& rng) {
      norm1 = add("norm1", std::make_shared<nn::LayerNorm>(Shape{kWidth}));
      qkv = add("qkv", std::make_shared<nn::Linear>(kWidth, 3 * kWidth, rng));
      projection = add("projection", std::make_shared<nn::Linear>(kWidth, kWidth, rng));
      norm2 = add("norm2", std::make_shared<nn::LayerNorm>(Shape{kWidth}));
      up = add("up", std::make_shared<nn::Linear>(kWidth, 4 * kWidth, rng));
      down = add("down", std::make_shared<nn::Linear>(4 * kWidth, kWidth, rng));
    }
    Tensor forward(const Tensor& x) override {
      const Tensor heads = reshape((*qkv)((*norm1)(x)), {kBatch, kLength, 3, kHeads, kHeadWidth});
      const std::vector<Tensor> parts = unbind(permute(heads, {2, 0, 3, 1, 4}));
      const Tensor mixed = core(parts[0], parts[1], parts[2]);
      const Tensor y = x + (*projection)(reshape(transpose(mixed, 1, 2), {kBatch, kLength, kWidth}));
      return y + (*down)(gelu((*up)((*norm2)(y))));
    }

    graph::Jit<decltype(&attention_core)> core = jit(&attention_core, {.name = "attention core"});
    std::shared_ptr<nn::LayerNorm> norm1, norm2;
    std::shared_ptr<nn::Linear> qkv, projection, up, down;
  };

  using Function = std::function<Tensor(const Tensor& x)>;
  Rng rng_;
  Block block_;
  std::array<Tensor, 1> input_;
  std::optional<ValueAndGradFunction<Function>> gradients_;
};

/// A training step with an auxiliary result, the accuracy on the batch.
class TrainStep final : public Program {
 public:
  explicit TrainStep(std::uint64_t seed)
      : rng_(seed),
        model_({std::make_shared<nn::Linear>(64, 128, rng_), std::make_shared<nn::ReLU>(),
                std::make_shared<nn::Linear>(128, 10, rng_)}),
        adam_(model_.parameters(), {.lr = 1e-3}),
        step_(value_and_grad(Function([this](const Tensor& x, const Tensor& y) { return loss(x, y); }),
                             {.arguments = {}, .weights = model_.parameters()})),
        batches_(random_batches(8, {64, 64}, 10, rng_)) {}
  std::span<const Tensor> inputs(std::int64_t step) override {
    return batches_[static_cast<std::size_t>(step) % batches_.size()];
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    const auto result = step_(inputs[0], inputs[1]);
    adam_.step(result.weights);
    return {result.value, result.aux};
  }
  Variables state() const override {
    Variables all = model_.parameters();
    all.insert(all.end(), adam_.state().begin(), adam_.state().end());
    return all;
  }

 private:
  using LossAndAccuracy = std::pair<Tensor, Tensor>;
  using Function = std::function<LossAndAccuracy(const Tensor& x, const Tensor& y)>;

  LossAndAccuracy loss(const Tensor& x, const Tensor& y) {
    const Tensor logits = model_(x);
    return {cross_entropy(logits, y), mean(equal(argmax(logits, 1), y))};
  }

  Rng rng_;
  nn::Sequential model_;
  optim::Adam adam_;
  ValueAndGradFunction<Function> step_;
  std::vector<Training::Batch> batches_;
};

}  // namespace

std::vector<Workload> reference_suite() {
  std::vector<Workload> suite;
  for (const std::int64_t width : {512, 32}) {
    suite.push_back({.name = fmt::format("reference/rigid-{}", width),
                     .suite = "reference",
                     .title = fmt::format("{} x z = tanh(z @ y), {}x{}", Rigid::kRounds, width, width),
                     .unit = "call",
                     .in_default_set = true,
                     .check_steps = 1,
                     .make = [width](std::uint64_t seed) { return std::make_unique<Rigid>(seed, width); }});
  }
  suite.push_back(
      {.name = "reference/mixed",
       .suite = "reference",
       .title = "Transformer block on 2x64x128 with a jit attention core, gradients; eager: op by op around it",
       .unit = "call",
       .make = [](std::uint64_t seed) { return std::make_unique<Mixed>(seed); }});
  suite.push_back({.name = "reference/train-step",
                   .suite = "reference",
                   .title = "MLP 64-128-10, batch 64, Adam, with the accuracy as auxiliary result",
                   .unit = "training step",
                   .check_steps = 8,
                   .make = [](std::uint64_t seed) { return std::make_unique<TrainStep>(seed); }});
  return suite;
}

}  // namespace diptych::workloads
