// Attention: the block that transformers are made of, the same op by op, and the scaled dot product alone, by length.

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

constexpr std::int64_t kAttentionWidth = 256;
constexpr std::int64_t kAttentionHeads = 8;
const Shape kInput{2, 196, kAttentionWidth};

/// One projection to queries, keys and values, heads side by side, and one projection of the result.
class SelfAttention : public nn::Module {
 public:
  explicit SelfAttention(Rng& rng)
      : qkv_(add("qkv", std::make_shared<nn::Linear>(kAttentionWidth, 3 * kAttentionWidth, rng))),
        projection_(add("projection", std::make_shared<nn::Linear>(kAttentionWidth, kAttentionWidth, rng))) {}

  Tensor forward(const Tensor& x) override {
    const std::int64_t batch = x.shape()[0];
    const std::int64_t length = x.shape()[1];
    const Tensor by_head = reshape((*qkv_)(x), {batch, length, 3, kAttentionHeads, kAttentionWidth / kAttentionHeads});
    const std::vector<Tensor> qkv = unbind(permute(by_head, {2, 0, 3, 1, 4}));
    const Tensor mixed = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
    return (*projection_)(reshape(transpose(mixed, 1, 2), {batch, length, kAttentionWidth}));
  }

 private:
  std::shared_ptr<nn::Linear> qkv_, projection_;
};

/// As in "Attention Is All You Need" and most tutorials: three projections, heads, scores, scaling, a causal mask,
/// softmax, mix.
class WrittenOut : public nn::Module {
 public:
  explicit WrittenOut(Rng& rng)
      : query_(add("query", linear(rng))),
        key_(add("key", linear(rng))),
        value_(add("value", linear(rng))),
        projection_(add("projection", linear(rng))) {}

  Tensor forward(const Tensor& x) override {
    const std::int64_t batch = x.shape()[0];
    const std::int64_t length = x.shape()[1];
    const auto heads = [&](const Tensor& all) {
      return transpose(reshape(all, {batch, length, kAttentionHeads, kAttentionWidth / kAttentionHeads}), 1, 2);
    };
    const Tensor q = heads((*query_)(x));
    const Tensor k = heads((*key_)(x));
    const Tensor v = heads((*value_)(x));
    const Tensor scores = matmul(q, transpose(k, -2, -1)) * (1 / std::sqrt(double(kAttentionWidth) / kAttentionHeads));
    const Tensor later = triu(full(Shape{length, length}, 1.0, DType::boolean), 1);
    const Tensor masked = where(later, full(Shape{}, -std::numeric_limits<double>::infinity()), scores);
    const Tensor mixed = matmul(softmax(masked), v);
    return (*projection_)(reshape(transpose(mixed, 1, 2), {batch, length, kAttentionWidth}));
  }

 private:
  static std::shared_ptr<nn::Linear> linear(Rng& rng) {
    return std::make_shared<nn::Linear>(kAttentionWidth, kAttentionWidth, rng);
  }
  std::shared_ptr<nn::Linear> query_, key_, value_, projection_;
};

/// Forward and backward: the gradients of the sum of the block's output with respect to x and all weights.
template <class Block>
class BlockGradients final : public Program {
 public:
  explicit BlockGradients(std::uint64_t seed) : rng_(seed), block_(rng_), input_{rng_.normal(kInput)} {
    gradients_.emplace(value_and_grad(Function([this](const Tensor& x) { return sum(block_(x)); }),
                                      {.arguments = {0}, .weights = block_.parameters()}));
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return input_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    auto result = (*gradients_)(inputs[0]);
    std::vector<Tensor> all = std::move(result.arguments);
    all.insert(all.end(), result.weights.begin(), result.weights.end());
    return all;
  }

 private:
  using Function = std::function<Tensor(const Tensor& x)>;
  Rng rng_;
  Block block_;
  std::array<Tensor, 1> input_;
  std::optional<ValueAndGradFunction<Function>> gradients_;
};

template <class Block>
std::unique_ptr<Program> block_inference(std::uint64_t seed) {
  Rng rng(seed);
  auto block = std::make_shared<Block>(rng);
  return std::make_unique<Inference>(block, rng.normal(kInput));
}
template <class Block>
std::unique_ptr<Program> block_gradients(std::uint64_t seed) {
  return std::make_unique<BlockGradients<Block>>(seed);
}

/// The scaled dot product of 8 heads of width 64.
class DotProduct final : public Program {
 public:
  DotProduct(std::uint64_t seed, std::int64_t length, bool is_causal) : is_causal_(is_causal) {
    Rng rng(seed);
    for (Tensor& input : inputs_) {
      input = rng.normal({1, 8, length, 64});
    }
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    return {scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.is_causal = is_causal_})};
  }

 private:
  bool is_causal_;
  std::array<Tensor, 3> inputs_;
};

}  // namespace

std::vector<Workload> attention_suite() {
  std::vector<Workload> suite = {
      {.name = "attention/block",
       .suite = "attention",
       .title = "Self-attention on 2x196x256, 8 heads, inference",
       .unit = "call",
       .in_default_set = true,
       .make = block_inference<SelfAttention>},
      {.name = "attention/block-train",
       .suite = "attention",
       .title = "Self-attention on 2x196x256, 8 heads, gradients of input and weights",
       .unit = "call",
       .make = block_gradients<SelfAttention>},
      {.name = "attention/written-out",
       .suite = "attention",
       .title = "Causal self-attention on 2x196x256, 8 heads, written op by op, inference",
       .unit = "call",
       .in_default_set = true,
       .make = block_inference<WrittenOut>},
      {.name = "attention/written-out-train",
       .suite = "attention",
       .title = "Causal self-attention on 2x196x256, 8 heads, written op by op, gradients",
       .unit = "call",
       .make = block_gradients<WrittenOut>},
  };
  for (const bool is_causal : {false, true}) {
    for (const std::int64_t length : {64, 128, 256, 512, 1024, 2048}) {
      suite.push_back(
          {.name = fmt::format("attention/sdpa{}-{}", is_causal ? "-causal" : "", length),
           .suite = "attention",
           .title = fmt::format("Scaled dot product attention{}, 8 heads, {}x64", is_causal ? ", causal" : "", length),
           .unit = "call",
           .check_steps = 1,
           .make = [length, is_causal](std::uint64_t seed) {
             return std::make_unique<DotProduct>(seed, length, is_causal);
           }});
    }
  }
  return suite;
}

}  // namespace diptych::workloads
