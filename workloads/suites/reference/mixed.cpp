// Mixed mode: a transformer block that runs op by op, except for its attention core, which is a jit function. Gradients
// flow through the compiled part, and all results equal those of eager alone, bit for bit.

#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "framework/transforms/ledger.h"

using namespace diptych;

namespace {

constexpr std::int64_t kBatch = 2, kLength = 16, kWidth = 32, kHeads = 4, kHeadWidth = kWidth / kHeads;

using Core = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

Tensor attention_core(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = matmul(q * (1 / std::sqrt(static_cast<double>(kHeadWidth))), transpose(k));
  return matmul(softmax(scores), v);
}

/// Attention and a feed-forward network, each after a layer norm and with a residual.
struct Block : nn::Module {
  Block(Core chosen, Rng& rng) : core(std::move(chosen)) {
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

  Core core;
  std::shared_ptr<nn::LayerNorm> norm1, norm2;
  std::shared_ptr<nn::Linear> qkv, projection, up, down;
};

/// The loss and all gradients: with respect to x first, then to the weights.
std::vector<Tensor> run(Block& block, const Tensor& x) {
  auto result = value_and_grad([&](const Tensor& input) { return mean(square(block(input))); },
                               {.arguments = {0}, .weights = block.parameters()})(x);
  std::vector<Tensor> all{result.value, result.arguments[0]};
  all.insert(all.end(), result.weights.begin(), result.weights.end());
  return all;
}

}  // namespace

int main() {
  auto compiled = jit(attention_core, {.name = "attention core"});
  Rng rng(1), same_rng(1);
  Block eager(attention_core, rng);
  Block mixed([compiled](const Tensor& q, const Tensor& k, const Tensor& v) mutable { return compiled(q, k, v); },
              same_rng);

  const Tensor x = Rng(2).normal({kBatch, kLength, kWidth});
  const std::vector<Tensor> expected = run(eager, x);
  const std::vector<Tensor> actual = run(mixed, x);
  bool equal_bits = true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    equal_bits = equal_bits && bitwise_equal(expected[i], actual[i]);
  }
  fmt::print("loss: all eager {:.6f}, mixed {:.6f}\n", expected[0].item(), actual[0].item());
  fmt::print("gradients: by x and {} weights\n", expected.size() - 2);
  const graph::JitFunction& core = *compiled.compiled();
  fmt::print("the core as a graph: {} nodes\n{}", core.graph()->nodes.size(), to_text(core.ledger()));
  fmt::print("equal bits: {}\n", equal_bits ? "yes" : "no");
  return equal_bits ? 0 : 1;
}
