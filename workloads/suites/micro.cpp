// Programs that isolate one cause: dispatch (tiny tensors) with and without a tape, and memory traffic (a chain of
// elementwise ops on a large tensor).

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
  };
}

}  // namespace diptych::workloads
