// Programs that isolate one cause: dispatch (tiny tensors) with and without a tape, and memory traffic (elementwise ops
// on a large tensor, the tail of a transformer's layer, the update of many parameters).

#include <cmath>

#include "framework/diptych.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

constexpr int kChain = 50;

Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor z = x;
  for (int i = 0; i < kChain; ++i) {
    z = tanh(z + y);
  }
  return z;
}

class Dispatch final : public Program {
 public:
  Dispatch(std::uint64_t seed, bool with_tape) : with_tape_(with_tape) {
    Rng rng(seed);
    inputs_ = {rng.normal({4, 4}), rng.normal({4, 4})};
    gradient_ = grad(Loss([](const Tensor& x, const Tensor& y) { return sum(chain(x, y)); }), {0, 1});
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    if (with_tape_) {
      return gradient_(inputs[0], inputs[1]);
    }
    return {chain(inputs[0], inputs[1])};
  }

 private:
  using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;
  bool with_tape_;
  std::array<Tensor, 2> inputs_;
  std::function<std::vector<Tensor>(const Tensor&, const Tensor&)> gradient_;
};

class Fusion final : public Program {
 public:
  explicit Fusion(std::uint64_t seed) {
    Rng rng(seed);
    inputs_ = {rng.normal({1 << 20})};
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  /// Ten ops, two of them exponentials.
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    const Tensor& x = inputs[0];
    const Tensor bell = exp(neg(square(x)));    // 3
    const Tensor gate = sigmoid(x * 1.5);       // 5, one exponential inside
    return {relu(bell * gate - x) * bell + x};  // 10
  }

 private:
  std::array<Tensor, 1> inputs_;
};

/// What stands between two products of a transformer: residual, normalisation, activation, dropout.
class Norms final : public Program {
 public:
  explicit Norms(std::uint64_t seed) : generator_(seed), norm_(Shape{kColumns}), dropout_(0.1, generator_) {
    Rng rng(seed);
    inputs_ = {rng.normal({kRows, kColumns}), rng.normal({kRows, kColumns})};
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    const Tensor x = inputs[0] + inputs[1];
    return {dropout_(gelu(norm_(x))), x};
  }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    dropout_.eval();
    std::vector<Tensor> results = body(inputs);
    dropout_.train();
    return results;
  }
  bool is_forward() const override { return false; }
  Variables state() const override { return dropout_.state(); }

 private:
  static constexpr std::int64_t kRows = 4096;
  static constexpr std::int64_t kColumns = 768;
  Generator generator_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  std::array<Tensor, 2> inputs_;
};

/// One step of Adam for 100 parameters, whose sizes are those of a geometric series.
class ManyParameters final : public Program {
 public:
  explicit ManyParameters(std::uint64_t seed) {
    constexpr int kParameters = 100;
    constexpr double kSmallest = 1e3;
    constexpr double kLargest = 1e6;
    Rng rng(seed);
    for (int i = 0; i < kParameters; ++i) {
      const auto size =
          static_cast<std::int64_t>(std::lround(kSmallest * std::pow(kLargest / kSmallest, i / (kParameters - 1.0))));
      parameters_.emplace_back(rng.normal({size}));
      gradients_.push_back(rng.normal({size}));
    }
    optimizer_ = std::make_unique<optim::Adam>(parameters_, 1e-3);
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return gradients_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    optimizer_->step(inputs);
    return {};
  }
  Variables state() const override {
    Variables all = parameters_;
    all.insert(all.end(), optimizer_->state().begin(), optimizer_->state().end());
    return all;
  }

 private:
  Variables parameters_;
  std::vector<Tensor> gradients_;
  std::unique_ptr<optim::Adam> optimizer_;
};

}  // namespace

std::vector<Workload> micro_suite() {
  return {
      {.name = "micro/dispatch",
       .suite = "micro",
       .title = "50 x tanh(z + y) on 4x4, no tape",
       .unit = "call",
       .in_default_set = true,
       .make = [](std::uint64_t seed) { return std::make_unique<Dispatch>(seed, false); }},
      {.name = "micro/dispatch-tape",
       .suite = "micro",
       .title = "50 x tanh(z + y) on 4x4, with its gradient",
       .unit = "call",
       .in_default_set = true,
       .make = [](std::uint64_t seed) { return std::make_unique<Dispatch>(seed, true); }},
      {.name = "micro/fusion",
       .suite = "micro",
       .title = "Ten elementwise ops on 2^20 floats",
       .unit = "call",
       .in_default_set = true,
       .make = [](std::uint64_t seed) { return std::make_unique<Fusion>(seed); }},
      {.name = "micro/norms",
       .suite = "micro",
       .title = "Residual, layer norm, GELU and dropout on 4096x768",
       .unit = "call",
       .make = [](std::uint64_t seed) { return std::make_unique<Norms>(seed); }},
      {.name = "micro/optimizer",
       .suite = "micro",
       .title = "Adam's step for 100 parameters of 1,000 to 1,000,000 elements",
       .unit = "update",
       .in_default_set = true,
       .make = [](std::uint64_t seed) { return std::make_unique<ManyParameters>(seed); }},
  };
}

}  // namespace diptych::workloads
