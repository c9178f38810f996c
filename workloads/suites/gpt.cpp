// A small causal language model on tokens of a Markov chain.

#include <cmath>

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

constexpr std::int64_t kVocabulary = 64;
constexpr std::int64_t kContext = 64;
constexpr std::int64_t kGptWidth = 128;
constexpr std::int64_t kGptHeads = 4;
constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kGptBatch = 8;
constexpr std::int64_t kSteps = 30;  // of the check

/// tokens: i64[N, L] -> logits of the next token [N, L, vocabulary] [Radford et al. 2019].
class Gpt : public nn::Module {
 public:
  explicit Gpt(Rng& rng)
      : tokens_(add("tokens", std::make_shared<nn::Embedding>(kVocabulary, kGptWidth, rng,
                                                              nn::EmbeddingOptions{.init = "normal(0.02)"}))),
        positions_(parameter("positions", rng.normal({kContext, kGptWidth}, 0, 0.02))) {
    for (std::int64_t i = 0; i < kLayers; ++i) {
      layers_->append(std::make_shared<nn::TransformerEncoderLayer>(
          kGptWidth, kGptHeads, rng,
          nn::TransformerEncoderLayerOptions{.dim_feedforward = 4 * kGptWidth,
                                             .dropout = 0,
                                             .activation = "gelu",
                                             .norm_first = true,
                                             .is_causal = true}));
    }
    add("layers", layers_);
    norm_ = add("norm", std::make_shared<nn::LayerNorm>(Shape{kGptWidth}));
    head_ = add("head", std::make_shared<nn::Linear>(kGptWidth, kVocabulary, rng, nn::LinearOptions{.bias = false}));
  }

  Tensor forward(const Tensor& tokens) override {
    Tensor x = (*tokens_)(tokens) + positions_;
    for (const auto& layer : *layers_) {
      x = (*layer)(x);
    }
    return (*head_)((*norm_)(x));
  }

 private:
  std::shared_ptr<nn::Embedding> tokens_;
  Variable positions_;
  std::shared_ptr<nn::ModuleList<nn::TransformerEncoderLayer>> layers_ =
      std::make_shared<nn::ModuleList<nn::TransformerEncoderLayer>>();
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<nn::Linear> head_;
};

/// Batches of one chain; another `seed` draws other sequences of the same chain.
std::vector<Training::Batch> token_batches(std::int64_t count, std::uint64_t seed) {
  const data::Dataset tokens =
      data::synthetic_tokens({.count = count * kGptBatch, .length = kContext, .vocabulary = kVocabulary, .seed = seed});
  const std::vector<Tensor> inputs = split(tokens.inputs, kGptBatch);
  const std::vector<Tensor> labels = split(tokens.labels, kGptBatch);
  std::vector<Training::Batch> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    batches.push_back({inputs[i], labels[i]});
  }
  return batches;
}

Tensor next_token_loss(const Tensor& logits, const Tensor& next) {
  return cross_entropy(reshape(logits, {-1, kVocabulary}), reshape(next, {-1}));
}

/// The metric is what the model has learned: nats per token below those of guessing, on sequences that it hasn't seen.
class LanguageTraining final : public Training {
 public:
  LanguageTraining(const nn::ModulePtr& model, std::uint64_t seed)
      : Training(model, std::make_unique<optim::Adam>(model->parameters(), 2e-3), next_token_loss,
                 token_batches(kSteps, seed)),
        held_out_(token_batches(1, ~seed)[0]) {}
  std::vector<Metric> metrics() override {
    const double loss = next_token_loss(evaluate(held_out_[0]), held_out_[1]).item();
    return {{"held-out loss", loss, "nats"}, {"gain over guessing", std::log(double(kVocabulary)) - loss, "nats"}};
  }

 private:
  Batch held_out_;
};

}  // namespace

std::vector<Workload> gpt_suite() {
  return {
      {.name = "gpt/mini",
       .suite = "gpt",
       .title = "Causal language model, 4 layers, 128 wide, context 64, training step, batch 8, Adam",
       .unit = "training step",
       .in_default_set = true,
       .check_steps = kSteps,
       .targets = {{"gain over guessing", 0.5}},
       .make =
           [](std::uint64_t seed) {
             Rng rng(seed);
             return std::make_unique<LanguageTraining>(std::make_shared<Gpt>(rng), seed);
           }},
      {.name = "gpt/mini-infer",
       .suite = "gpt",
       .title = "The same, inference, batch 1",
       .unit = "call",
       .make =
           [](std::uint64_t seed) {
             Rng rng(seed);
             auto model = std::make_shared<Gpt>(rng);
             return std::make_unique<Inference>(model, rng.integers({1, kContext}, 0, kVocabulary));
           }},
  };
}

}  // namespace diptych::workloads
