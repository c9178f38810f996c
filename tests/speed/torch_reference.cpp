#include "torch_reference.h"

#include <chrono>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

namespace diptych::torch_reference {

const char* version() { return TORCH_VERSION; }

double add_seconds(bool tape, int iterations) {
  torch::set_num_threads(1);
  const torch::InferenceMode inference(!tape);
  const torch::Tensor a = torch::randn({4, 4}).set_requires_grad(tape);
  const torch::Tensor b = torch::randn({4, 4});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) {
    const torch::Tensor c = torch::add(a, b);
    asm volatile("" : : "r"(c.unsafeGetTensorImpl()) : "memory");
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace diptych::torch_reference
