#include "torch_models.h"

#include <algorithm>
#include <atomic>
#include <c10/core/CPUAllocator.h>
#include <cmath>
#include <malloc.h>
#include <torch/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace diptych::torch_reference {
namespace {

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 8;

struct AttentionImpl : torch::nn::Module {
  AttentionImpl() : qkv(kWidth, 3 * kWidth), projection(kWidth, kWidth) {
    register_module("qkv", qkv);
    register_module("projection", projection);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto batch = x.size(0);
    const auto length = x.size(1);
    const auto parts = qkv(x).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(double(kWidth / kHeads));
    const auto mixed = torch::matmul(torch::softmax(scores, -1), parts[2]);
    return projection(mixed.transpose(1, 2).reshape({batch, length, kWidth}));
  }
  torch::nn::Linear qkv, projection;
};
TORCH_MODULE(Attention);

struct VitImpl : torch::nn::Module {
  VitImpl()
      : patches(torch::nn::Conv2dOptions(3, kWidth, 16).stride(16)),
        norm1(torch::nn::LayerNormOptions({kWidth})),
        norm2(torch::nn::LayerNormOptions({kWidth})),
        head(kWidth, 100) {
    register_module("patches", patches);
    register_module("norm1", norm1);
    register_module("attention", attention);
    register_module("norm2", norm2);
    register_module("head", head);
    class_token = register_parameter("class_token", torch::randn({1, 1, kWidth}) * 0.02);
    positions = register_parameter("positions", torch::randn({1, 197, kWidth}) * 0.02);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    auto x = patches(images).flatten(2).transpose(1, 2);
    x = torch::cat({class_token.expand({x.size(0), 1, kWidth}), x}, 1) + positions;
    x = x + attention(norm1(x));
    return head(norm2(x).select(1, 0));
  }
  torch::nn::Conv2d patches;
  torch::nn::LayerNorm norm1, norm2;
  Attention attention;
  torch::nn::Linear head;
  torch::Tensor class_token, positions;
};
TORCH_MODULE(Vit);

template <class Model>
std::function<void()> inference(Model model, const torch::Tensor& x) {
  torch::set_num_threads(1);
  model->eval();
  return [model, x]() mutable {
    const torch::InferenceMode mode;
    const torch::Tensor y = model->forward(x);
    asm volatile("" : : "r"(y.unsafeGetTensorImpl()) : "memory");
  };
}

template <class Model, class Optimizer, class Loss>
std::function<void()> training(Model model, std::shared_ptr<Optimizer> optimizer, Loss loss, const torch::Tensor& x,
                               const torch::Tensor& y) {
  torch::set_num_threads(1);
  return [model, optimizer, loss, x, y]() mutable {
    optimizer->zero_grad();
    loss(model->forward(x), y).backward();
    optimizer->step();
  };
}

std::atomic<std::int64_t> bytes_in_use{0};
std::atomic<std::int64_t> bytes_peak{0};

/// The allocations of libtorch's own CPU allocator, counted.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const override {
    void* data = nullptr;
    TORCH_CHECK(posix_memalign(&data, 64, std::max<std::size_t>(bytes, 1)) == 0, "out of memory");
    const auto now = bytes_in_use += static_cast<std::int64_t>(malloc_usable_size(data));
    bytes_peak = std::max(bytes_peak.load(), now);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  static void release(void* data) {
    bytes_in_use -= static_cast<std::int64_t>(malloc_usable_size(data));
    free(data);
  }
};

}  // namespace

std::function<void()> simplenet_step() {
  torch::nn::Sequential model(torch::nn::Linear(1024, 1024), torch::nn::ReLU());
  auto optimizer =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  return training(
      model, optimizer, [](const torch::Tensor& output, const torch::Tensor& y) { return torch::mse_loss(output, y); },
      torch::randn({32, 1024}), torch::randn({32, 1024}));
}

std::function<void()> attention_block() { return inference(Attention(), torch::randn({2, 196, kWidth})); }

std::function<void()> attention_block_gradients() {
  torch::set_num_threads(1);
  Attention model;
  std::vector<torch::Tensor> by = model->parameters();
  by.push_back(torch::randn({2, 196, kWidth}).requires_grad_());
  return [model, by]() mutable {
    const auto gradients = torch::autograd::grad({model->forward(by.back()).sum()}, by);
    asm volatile("" : : "r"(&gradients) : "memory");
  };
}

std::function<void()> vit_reference(std::int64_t batch) { return inference(Vit(), torch::randn({batch, 3, 224, 224})); }

std::function<void()> vit_reference_step(std::int64_t batch) {
  Vit model;
  auto optimizer = std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
  return training(
      model, optimizer,
      [](const torch::Tensor& logits, const torch::Tensor& labels) {
        return torch::cross_entropy_loss(logits, labels);
      },
      torch::randn({batch, 3, 224, 224}), torch::randint(100, {batch}, torch::kLong));
}

namespace {
CountingAllocator counting_allocator;
c10::Allocator* allocator_before = nullptr;
constexpr std::uint8_t kPriority = 255;
}  // namespace

CountBytes::CountBytes() {
  allocator_before = c10::GetCPUAllocator();
  bytes_in_use = 0;
  bytes_peak = 0;
  c10::SetCPUAllocator(&counting_allocator, kPriority);
}
CountBytes::~CountBytes() { c10::SetCPUAllocator(allocator_before, kPriority); }
std::int64_t CountBytes::in_use() const { return bytes_in_use; }
std::int64_t CountBytes::peak() const { return bytes_peak; }

}  // namespace diptych::torch_reference
