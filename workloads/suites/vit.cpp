// Vision transformers [Dosovitskiy et al. 2021]: the published shapes, one with a single attention block, and one that
// learns the digits.

#include <fmt/format.h>

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

struct VitShape {
  std::int64_t image = 224;
  std::int64_t channels = 3;
  std::int64_t patch = 16;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t blocks;
  std::int64_t mlp;  ///< 0: blocks consist of attention alone
  std::int64_t classes;

  std::int64_t patches() const { return (image / patch) * (image / patch); }
  Shape images(std::int64_t batch) const { return {batch, channels, image, image}; }
};

constexpr VitShape kReference{.width = 256, .heads = 8, .blocks = 1, .mlp = 0, .classes = 100};
constexpr VitShape kTiny{.width = 192, .heads = 3, .blocks = 12, .mlp = 768, .classes = 1000};
constexpr VitShape kBase{.width = 768, .heads = 12, .blocks = 12, .mlp = 3072, .classes = 1000};
constexpr VitShape kVitDigits{
    .image = 8, .channels = 1, .patch = 2, .width = 32, .heads = 4, .blocks = 2, .mlp = 64, .classes = 10};
constexpr DigitsSchedule kVitSchedule{.batch = 64, .epochs = 20};

/// x + attention(norm(x))
class AttentionBlock : public nn::Module {
 public:
  AttentionBlock(const VitShape& shape, Rng& rng)
      : norm_(add("norm", std::make_shared<nn::LayerNorm>(Shape{shape.width}))),
        attention_(add("attention", std::make_shared<nn::MultiHeadAttention>(shape.width, shape.heads, rng))) {}
  Tensor forward(const Tensor& x) override { return x + (*attention_)((*norm_)(x)); }

 private:
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<nn::MultiHeadAttention> attention_;
};

/// Attention and MLP, each after its norm.
class EncoderBlock : public nn::Module {
 public:
  EncoderBlock(const VitShape& shape, Rng& rng)
      : layer_(add("layer", std::make_shared<nn::TransformerEncoderLayer>(
                                shape.width, shape.heads, rng,
                                nn::TransformerEncoderLayerOptions{.dim_feedforward = shape.mlp,
                                                                   .dropout = 0,
                                                                   .activation = "gelu",
                                                                   .layer_norm_eps = 1e-6,
                                                                   .norm_first = true}))) {}
  Tensor forward(const Tensor& x) override { return (*layer_)(x); }

 private:
  std::shared_ptr<nn::TransformerEncoderLayer> layer_;
};

/// images: [N, C, H, W] -> logits [N, classes], from the class token that precedes the patches.
class VisionTransformer : public nn::Module {
 public:
  VisionTransformer(const VitShape& shape, Rng& rng)
      : patches_(add("patches", std::make_shared<nn::PatchEmbed>(shape.channels, shape.patch, shape.width, rng))),
        class_token_(parameter("class_token", rng.normal({1, 1, shape.width}, 0, 0.02))),
        positions_(parameter("positions", rng.normal({1, shape.patches() + 1, shape.width}, 0, 0.02))) {
    std::vector<nn::ModulePtr> blocks;
    for (std::int64_t i = 0; i < shape.blocks; ++i) {
      blocks.push_back(shape.mlp == 0 ? nn::ModulePtr(std::make_shared<AttentionBlock>(shape, rng))
                                      : std::make_shared<EncoderBlock>(shape, rng));
    }
    blocks_ = add("blocks", std::make_shared<nn::Sequential>(std::move(blocks)));
    norm_ = add("norm", std::make_shared<nn::LayerNorm>(Shape{shape.width}));
    head_ = add("head", std::make_shared<nn::Linear>(shape.width, shape.classes, rng));
  }

  Tensor forward(const Tensor& images) override {
    Tensor x = (*patches_)(images);  // one name, so that values no longer needed are freed
    x = concat({expand(class_token_, {x.shape()[0], 1, x.shape()[2]}), x}, 1);
    x = x + positions_;
    return (*head_)((*norm_)(select((*blocks_)(x), 1, 0)));
  }

 private:
  std::shared_ptr<nn::PatchEmbed> patches_;
  Variable class_token_, positions_;
  std::shared_ptr<nn::Sequential> blocks_;
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<nn::Linear> head_;
};

std::function<std::unique_ptr<Program>(std::uint64_t)> inference(const VitShape& shape, std::int64_t batch) {
  return [shape, batch](std::uint64_t seed) {
    Rng rng(seed);
    auto model = std::make_shared<VisionTransformer>(shape, rng);
    return std::make_unique<Inference>(model, rng.normal(shape.images(batch)));
  };
}

std::unique_ptr<Program> reference_training(std::uint64_t seed) {
  Rng rng(seed);
  auto model = std::make_shared<VisionTransformer>(kReference, rng);
  auto optimizer = std::make_unique<optim::Adam>(model->parameters(), 1e-3);
  return std::make_unique<Training>(model, std::move(optimizer), classification_loss,
                                    random_batches(1, kReference.images(32), kReference.classes, rng));
}

std::unique_ptr<Program> vit_digits(std::uint64_t seed) {
  Rng rng(seed);
  auto model = std::make_shared<VisionTransformer>(kVitDigits, rng);
  auto optimizer = std::make_unique<optim::Adam>(model->parameters(), 1.5e-3);
  return std::make_unique<DigitsTraining>(model, std::move(optimizer), split_digits({1, 8, 8}, seed), kVitSchedule,
                                          seed);
}

}  // namespace

std::vector<Workload> vit_suite() {
  std::vector<Workload> suite;
  for (const std::int64_t batch : {1, 32}) {
    suite.push_back({.name = fmt::format("vit/reference-b{}", batch),
                     .suite = "vit",
                     .title = fmt::format("ViT, 256 wide, one attention block, 224x224, inference, batch {}", batch),
                     .unit = "call",
                     .in_default_set = batch == 1,
                     .check_steps = 1,
                     .make = inference(kReference, batch)});
  }
  suite.push_back({.name = "vit/reference-train",
                   .suite = "vit",
                   .title = "The same, training step, batch 32, Adam",
                   .unit = "training step",
                   .make = reference_training});
  suite.push_back({.name = "vit/tiny",
                   .suite = "vit",
                   .title = "ViT-Ti/16, 224x224, inference, batch 1",
                   .unit = "call",
                   .check_steps = 1,
                   .make = inference(kTiny, 1)});
  suite.push_back({.name = "vit/b16",
                   .suite = "vit",
                   .title = "ViT-B/16, 224x224, inference, batch 1",
                   .unit = "call",
                   .check_steps = 1,
                   .make = inference(kBase, 1)});
  suite.push_back({.name = "vit/digits",
                   .suite = "vit",
                   .title = "ViT on digits, 32 wide, 2 blocks, patch 2, training step, batch 64, Adam",
                   .unit = "training step",
                   .check_steps = kVitSchedule.steps(),
                   .targets = {{"held-out accuracy", 0.93}},
                   .make = vit_digits});
  return suite;
}

}  // namespace diptych::workloads
