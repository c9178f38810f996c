// The classic demonstration of graph mode: z = tanh(z @ y), a hundred times, on unit normal inputs. With these inputs
// it is chaotic: a difference in one bit is a different result after a few rounds, so only a bitwise contract passes
// its check.

#include <fmt/format.h>

#include "framework/diptych.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

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
  return suite;
}

}  // namespace diptych::workloads
