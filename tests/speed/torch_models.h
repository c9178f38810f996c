#pragma once

#include <cstdint>
#include <functional>

/// The workloads of the suites as people write them for libtorch's eager mode: one call is one step on inputs of their
/// own. One thread; inference in inference mode.
namespace diptych::torch_reference {

/// Dense 1024 -> 1024 + ReLU, mean squared error, batch 32, SGD with momentum 0.9.
std::function<void()> simplenet_step();
/// x[2, 196, 256], 8 heads; training: the gradients of all weights and of x.
std::function<void()> attention_block();
std::function<void()> attention_block_gradients();
/// 224x224, patch 16, 256 wide, one attention block, 100 classes; training: cross entropy and Adam.
std::function<void()> vit_reference(std::int64_t batch);
std::function<void()> vit_reference_step(std::int64_t batch);

/// Counts the bytes of libtorch's tensors while it lives. Tensors from before don't count.
class CountBytes {
 public:
  CountBytes();
  ~CountBytes();
  CountBytes(const CountBytes&) = delete;
  CountBytes& operator=(const CountBytes&) = delete;

  std::int64_t in_use() const;
  std::int64_t peak() const;
};

}  // namespace diptych::torch_reference
