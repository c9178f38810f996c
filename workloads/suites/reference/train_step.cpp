// A training step in eager and compiled: forward, backward and update in one graph, with an auxiliary result. Both are
// warmed up before they are timed; the ledger shows what was compiled, when and why, and whether that has paid for
// itself.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "framework/transforms/ledger.h"

using namespace diptych;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Training {
 public:
  /// The loss, and the accuracy on the batch.
  std::pair<Tensor, Tensor> step(const Tensor& x, const Tensor& y) {
    // A pair (loss, aux): gradients are taken of the loss alone, and aux is passed through.
    auto loss = value_and_grad(
        [&](const Tensor& inputs, const Tensor& labels) {
          const Tensor logits = model_(inputs);
          return std::pair(cross_entropy(logits, labels), mean(equal(argmax(logits, 1), labels)));
        },
        {.weights = model_.parameters()});
    const auto result = loss(x, y);
    adam_.step(result.weights);  // assigns variables: outputs of the graph
    return {result.value, result.aux};
  }

 private:
  Rng rng_{1};
  nn::Sequential model_{{std::make_shared<nn::Linear>(64, 128, rng_), std::make_shared<nn::ReLU>(),
                         std::make_shared<nn::Linear>(128, 10, rng_)}};
  optim::Adam adam_{model_.parameters(), {.lr = 1e-3}};
};

}  // namespace

int main() {
  Training in_eager, in_graph;
  auto step = jit([&](const Tensor& x, const Tensor& y) { return in_graph.step(x, y); }, {.name = "train step"});

  const data::Dataset digits = data::load_digits(data::digits_path());
  data::Batches batches(digits, 64, 1);
  std::vector<data::Dataset> ready;  // made in advance, so that the loop times only the steps
  for (std::int64_t i = 0; i < 120; ++i) {
    ready.push_back(batches[i]);
  }
  constexpr std::size_t kWarmUp = 20;  // the first call compiles; the others fill caches and the allocator
  std::vector<double> eager_times, graph_times;
  std::pair<Tensor, Tensor> eager, graph;
  for (std::size_t i = 0; i < ready.size(); ++i) {  // in turn: a machine's clock drifts
    const double start = seconds();
    eager = in_eager.step(ready[i].inputs, ready[i].labels);
    const double middle = seconds();
    graph = step(ready[i].inputs, ready[i].labels);
    if (i >= kWarmUp) {
      eager_times.push_back(middle - start);
      graph_times.push_back(seconds() - middle);
    }
  }
  const auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  };
  const double eager_median = median(eager_times);
  const double graph_median = median(graph_times);
  fmt::print("loss {:.3f}, accuracy on the batch {:.3f}\n", graph.first.item(), graph.second.item());
  fmt::print("equal bits: {}\n", bitwise_equal(eager.first, graph.first) ? "yes" : "no");
  fmt::print("median of {} steps: eager {:.1f} us, graph {:.1f} us\n", graph_times.size(), eager_median * 1e6,
             graph_median * 1e6);

  // A batch of another size is another signature: it compiles again, and the ledger says why.
  step(slice(digits.inputs, 0, 0, 5), slice(digits.labels, 0, 0, 5));
  const std::vector<graph::Compilation>& ledger = step.compiled()->ledger();
  fmt::print("{}", to_text(ledger, eager_median - graph_median));
  return ledger.size() == 2 && bitwise_equal(eager.first, graph.first) ? 0 : 1;
}
