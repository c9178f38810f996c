// A vision transformer trained on the handwritten digits in graph mode: the model, the gradients and the optimizer are
// written as for eager, and set_mode() alone makes graphs of them. Ends with a checkpoint, loaded into another model.
//
//   reference_train_vit [CHECKPOINT]      default: a file in the temporary folder

#include <filesystem>

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

namespace {

constexpr std::int64_t kWidth = 32, kHeads = 4, kTokens = 16, kEpochs = 20, kBatch = 64;

/// 8x8 images in 2x2 patches [Dosovitskiy et al. 2021], averaged over the tokens instead of a class token.
struct VisionTransformer : nn::Module {
  using Blocks = nn::ModuleList<nn::TransformerEncoderLayer>;
  explicit VisionTransformer(Rng& rng) {
    patches = add("patches", std::make_shared<nn::PatchEmbed>(1, 2, kWidth, rng));
    positions = parameter("positions", rng.normal({kTokens, kWidth}, 0, 0.02));
    const nn::TransformerEncoderLayerOptions options{
        .dim_feedforward = 64, .dropout = 0.05, .activation = "gelu", .norm_first = true};
    for (int i = 0; i < 2; ++i) {
      blocks->append(std::make_shared<nn::TransformerEncoderLayer>(kWidth, kHeads, rng, options));
    }
    add("blocks", blocks);
    norm = add("norm", std::make_shared<nn::LayerNorm>(Shape{kWidth}));
    head = add("head", std::make_shared<nn::Linear>(kWidth, 10, rng));
  }
  Tensor forward(const Tensor& images) override {
    Tensor x = (*patches)(images) + positions;
    for (const auto& block : *blocks) {
      x = (*block)(x);
    }
    return (*head)(mean((*norm)(x), {1}));
  }

  std::shared_ptr<nn::PatchEmbed> patches;
  Variable positions;
  std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>();
  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Linear> head;
};

double accuracy(VisionTransformer& model, const data::Dataset& held_out) {
  const NoGrad guard;
  model.eval();  // no dropout; the graph for training stays cached
  const double share = mean(equal(argmax(model(held_out.inputs), 1), held_out.labels)).item();
  model.train();
  return share;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path file =
      argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "diptych-vit.safetensors";
  set_mode(Mode::graph);
  manual_seed(1);
  Rng rng(1);
  VisionTransformer model(rng);
  optim::AdamW adam(model.parameters(), {.lr = 3e-3});
  auto loss = value_and_grad([&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
                             {.weights = model.parameters()});

  data::Dataset digits = data::load_digits(data::digits_path());
  digits.inputs = reshape(digits.inputs, {-1, 1, 8, 8});
  const data::Split split = data::split(digits, 0.2, 1);
  data::Batches batches(split.train, kBatch, 1);
  const std::int64_t steps = kEpochs * batches.per_epoch();
  for (std::int64_t step = 0; step < steps; ++step) {
    const data::Dataset batch = batches[step];
    const auto result = loss(batch.inputs, batch.labels);
    adam.step(result.weights);
    if ((step + 1) % (5 * batches.per_epoch()) == 0) {
      fmt::print("epoch {:2}: loss {:.3f}\n", (step + 1) / batches.per_epoch(), result.value.item());
    }
  }
  const double trained = accuracy(model, split.test);
  fmt::print("held-out accuracy: {:.4f}\n", trained);

  io::save_checkpoint(file, {.model = model.state(), .optimizer = adam.state(), .step = steps});
  Rng other_rng(2);
  VisionTransformer other(other_rng);
  optim::AdamW other_adam(other.parameters(), {.lr = 3e-3});
  const double untrained = accuracy(other, split.test);
  const std::int64_t at = io::load_checkpoint(file, {.model = other.state(), .optimizer = other_adam.state()});
  const double loaded = accuracy(other, split.test);
  fmt::print("another model: {:.4f} before, {:.4f} after loading the checkpoint of step {}\n", untrained, loaded, at);
  fmt::print("same accuracy: {}\n", loaded == trained ? "yes" : "no");
  return loaded == trained ? 0 : 1;
}
