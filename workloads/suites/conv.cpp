// Convolutional networks: ResNet-18 as published, the block that such networks repeat, and a network that learns the
// digits.

#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

using nn::ModulePtr;

/// Convolution without bias, padded to keep the size at stride 1, and batch norm.
ModulePtr conv_norm(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride, Rng& rng) {
  nn::ConvOptions options;
  options.stride = {stride};
  options.padding = {kernel / 2};
  options.bias = false;
  options.init = "kaiming_normal";
  return std::make_shared<nn::Sequential>(
      std::vector<ModulePtr>{std::make_shared<nn::Conv2d>(inputs, outputs, Dims{kernel}, rng, options),
                             std::make_shared<nn::BatchNorm2d>(outputs)});
}

/// Two convolutions and a shortcut around them [He et al. 2016, figure 5, left]; a projection if the shapes differ.
class BasicBlock : public nn::Module {
 public:
  BasicBlock(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, Rng& rng)
      : first_(add("first", conv_norm(inputs, outputs, 3, stride, rng))),
        second_(add("second", conv_norm(outputs, outputs, 3, 1, rng))) {
    if (stride != 1 || inputs != outputs) {
      shortcut_ = add("shortcut", conv_norm(inputs, outputs, 1, stride, rng));
    }
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*second_)(diptych::relu((*first_)(x)));
    return diptych::relu(y + (shortcut_ ? (*shortcut_)(x) : x));
  }

 private:
  ModulePtr first_, second_, shortcut_;
};

ModulePtr resnet18(Rng& rng) {
  std::vector<ModulePtr> layers = {
      conv_norm(3, 64, 7, 2, rng), relu(),
      std::make_shared<nn::MaxPool2d>(Dims{3}, PoolOptions{.stride = {2}, .padding = {1}})};
  std::int64_t channels = 64;
  for (const std::int64_t outputs : {64, 128, 256, 512}) {
    layers.push_back(std::make_shared<BasicBlock>(channels, outputs, outputs == channels ? 1 : 2, rng));
    layers.push_back(std::make_shared<BasicBlock>(outputs, outputs, 1, rng));
    channels = outputs;
  }
  layers.push_back(std::make_shared<nn::GlobalAvgPool2d>());
  layers.push_back(std::make_shared<nn::Flatten>());
  layers.push_back(std::make_shared<nn::Linear>(512, 1000, rng));
  return std::make_shared<nn::Sequential>(std::move(layers));
}

const Shape kBlockInput{8, 64, 56, 56};
ModulePtr block(Rng& rng) {
  return std::make_shared<nn::Sequential>(std::vector<ModulePtr>{conv_norm(64, 64, 3, 1, rng), relu()});
}

std::unique_ptr<Program> block_training(std::uint64_t seed) {
  Rng rng(seed);
  const ModulePtr model = block(rng);
  const Training::Batch batch{rng.normal(kBlockInput), rng.normal(kBlockInput)};
  return std::make_unique<Training>(
      model, std::make_unique<optim::SGD>(model->parameters(), 0.1),
      [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); }, std::vector{batch});
}

constexpr DigitsSchedule kConvSchedule{.batch = 32, .epochs = 12};

std::unique_ptr<Program> conv_digits(std::uint64_t seed) {
  Rng rng(seed);
  const auto model = std::make_shared<nn::Sequential>(
      std::vector<ModulePtr>{conv_norm(1, 32, 3, 1, rng), relu(), std::make_shared<nn::MaxPool2d>(Dims{2}),  //
                             conv_norm(32, 64, 3, 1, rng), relu(), std::make_shared<nn::Flatten>(),          //
                             std::make_shared<nn::Linear>(64 * 4 * 4, 10, rng)});
  return std::make_unique<DigitsTraining>(model, std::make_unique<optim::Adam>(model->parameters(), 2e-3),
                                          split_digits({1, 8, 8}, seed), kConvSchedule, seed);
}

}  // namespace

std::vector<Workload> conv_suite() {
  return {
      {.name = "conv/resnet18",
       .suite = "conv",
       .title = "ResNet-18, 224x224, inference, batch 1",
       .unit = "call",
       .check_steps = 1,
       .make =
           [](std::uint64_t seed) {
             Rng rng(seed);
             const ModulePtr model = resnet18(rng);
             return std::make_unique<Inference>(model, rng.normal({1, 3, 224, 224}));
           }},
      {.name = "conv/block",
       .suite = "conv",
       .title = "Convolution 3x3, batch norm, ReLU on 8x64x56x56, inference",
       .unit = "call",
       .in_default_set = true,
       .check_steps = 1,
       .make =
           [](std::uint64_t seed) {
             Rng rng(seed);
             const ModulePtr model = block(rng);
             return std::make_unique<Inference>(model, rng.normal(kBlockInput));
           }},
      {.name = "conv/block-train",
       .suite = "conv",
       .title = "The same, MSE, training step, SGD",
       .unit = "training step",
       .make = block_training},
      {.name = "conv/digits",
       .suite = "conv",
       .title = "Digits classifier of 2 convolutions with batch norm, training step, batch 32, Adam",
       .unit = "training step",
       .check_steps = kConvSchedule.steps(),
       .targets = {{"held-out accuracy", 0.98}},
       .make = conv_digits},
  };
}

}  // namespace diptych::workloads
