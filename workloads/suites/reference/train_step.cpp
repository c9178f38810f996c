// One compiled training step in an eager loop: forward, backward and update in one graph, with an auxiliary result. It
// is warmed up before it is timed, and the ledger shows what was compiled, when and why.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main() {
  Rng rng(1);
  nn::Sequential model({std::make_shared<nn::Linear>(64, 128, rng), std::make_shared<nn::ReLU>(),
                        std::make_shared<nn::Linear>(128, 10, rng)});
  optim::Adam adam(model.parameters(), {.lr = 1e-3});

  // A pair (loss, aux): gradients are taken of the loss alone, and aux is passed through.
  auto loss = value_and_grad(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor logits = model(x);
        return std::pair(cross_entropy(logits, y), mean(equal(argmax(logits, 1), y)));
      },
      {.weights = model.parameters()});
  auto step = jit(
      [&](const Tensor& x, const Tensor& y) {
        const auto result = loss(x, y);
        adam.step(result.weights);  // assigns variables: outputs of the graph
        return std::pair(result.value, result.aux);
      },
      {.name = "train step"});

  const data::Dataset digits = data::load_digits(data::digits_path());
  data::Batches batches(digits, 64, 1);
  std::vector<data::Dataset> ready;  // made in advance, so that the loop times only the step
  for (std::int64_t i = 0; i < 120; ++i) {
    ready.push_back(batches[i]);
  }
  constexpr std::size_t kWarmUp = 20;  // the first call compiles; the others fill caches and the allocator
  std::vector<double> times;
  std::pair<Tensor, Tensor> last;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const double start = seconds();
    last = step(ready[i].inputs, ready[i].labels);
    if (i >= kWarmUp) {
      times.push_back(seconds() - start);
    }
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  fmt::print("loss {:.3f}, accuracy on the batch {:.3f}\n", last.first.item(), last.second.item());
  fmt::print("median of {} steps: {:.1f} us\n", times.size(), times[times.size() / 2] * 1e6);

  // A batch of another size is another signature: it compiles again, and the ledger says why.
  step(slice(digits.inputs, 0, 0, 5), slice(digits.labels, 0, 0, 5));
  fmt::print("ledger\n");
  for (const graph::Compilation& line : step.compiled()->ledger()) {
    fmt::print("  {}: compiled in {:.0f} us, {} nodes, {} calls\n", line.cause, line.seconds() * 1e6, line.nodes,
               line.calls);
  }
  return step.compiled()->ledger().size() == 2 ? 0 : 1;
}
