// What pipelined dispatch costs, stage by stage, and where it pays: the figures of docs/pipeline.md. Contenders are
// measured in the same interleaved rounds; figures are medians.

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/ops/op.h"

namespace diptych {
namespace {

/// Nanoseconds of one of `iterations` calls of each, over 21 rounds.
std::vector<double> medians(int iterations, const std::vector<std::function<void(int)>>& contenders) {
  std::vector<std::vector<double>> all(contenders.size());
  for (int round = 0; round < 21; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      contenders[i](iterations);
      const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
      all[i].push_back(spent.count() / iterations);
    }
  }
  std::vector<double> result;
  for (std::vector<double>& values : all) {
    std::nth_element(values.begin(), values.begin() + 10, values.end());
    result.push_back(values[10]);
  }
  return result;
}

template <class T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

TEST(PipelineStages, OfA4x4Add) {
  const NoGrad no_tape;
  const Tensor a = Rng(1).normal({4, 4});
  const Tensor b = Rng(2).normal({4, 4});
  const OpDef& op = *find_op("add");
  const TensorType* types[] = {&a.type(), &b.type()};
  const auto adds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      keep(add(a, b));
    }
  };
  const std::vector<double> ns = medians(20000, {[&](int n) {
                                                   for (int i = 0; i < n; ++i) {
                                                     TensorType type;
                                                     op.infer({op, types, nullptr, {}}, type);
                                                     keep(type);
                                                   }
                                                 },
                                                 [&](int n) {
                                                   for (int i = 0; i < n; ++i) {
                                                     keep(Tensor::empty(DType::float32, {4, 4}));
                                                   }
                                                 },
                                                 adds,
                                                 [&](int n) {
                                                   set_dispatch(Dispatch::pipelined);
                                                   adds(n);
                                                   set_dispatch(Dispatch::direct);
                                                   synchronize();
                                                 },
                                                 [&](int n) {
                                                   set_dispatch(Dispatch::pipelined);
                                                   for (int i = 0; i < n / 16; ++i) {
                                                     adds(1);
                                                     synchronize();
                                                   }
                                                   set_dispatch(Dispatch::direct);
                                                 }});
  fmt::print(
      "4x4 add: infer {:.0f} ns, allocate and free {:.0f} ns, direct {:.0f} ns, pipelined {:.0f} ns, launch and read "
      "{:.0f} ns\n",
      ns[0], ns[1], ns[2], ns[3], ns[4] * 16);
  // The point of direct dispatch for small ops, and of not splitting the stages over more queues.
  EXPECT_LT(ns[0] + ns[1], ns[3]) << "a queue costs more than the stages that it would move";
}

TEST(PipelinedChain, BySize) {
  const NoGrad no_tape;
  for (const std::int64_t n : {16, 256, 1024, 4096, 16384, 65536, 262144}) {
    const Tensor x = Rng(1).normal({n});
    const Tensor y = Rng(2).normal({n});
    const auto chain = [&](int calls) {
      for (int call = 0; call < calls; ++call) {
        Tensor z = x;
        for (int i = 0; i < 50; ++i) {
          z = tanh(z + y);
        }
      }
      synchronize();
    };
    const std::vector<double> ns = medians(n > 10000 ? 1 : 20, {chain, [&](int calls) {
                                                                  const PipelinedScope pipelined;
                                                                  chain(calls);
                                                                }});
    fmt::print("chain of tanh(z + y) on {:6}: direct {:8.0f} ns an op, pipelined {:8.0f} ns, {:.2f} x\n", n,
               ns[0] / 100, ns[1] / 100, ns[0] / ns[1]);
  }
}

TEST(PipelinedTraining, ByWidth) {
  for (const std::int64_t width : {8, 32, 64, 128, 256}) {
    Rng rng(3);
    const Variable w1(rng.normal({width, width}, 0, 0.1));
    const Variable w2(rng.normal({width, width}, 0, 0.1));
    const Variable b1(zeros({width}));
    const Variables weights{w1, w2, b1};
    optim::Adam adam(weights, 1e-3);
    auto gradients =
        value_and_grad([&](const Tensor& x) { return mean(square(matmul(tanh(matmul(x, w1) + b1.value()), w2))); },
                       {.weights = weights});
    const Tensor x = rng.normal({32, width});
    const auto steps = [&](int n, bool read) {
      for (int i = 0; i < n; ++i) {
        const auto result = gradients(x);
        adam.step(result.weights);
        if (read) {
          keep(result.value.item());
        }
      }
      synchronize();
    };
    const auto pipelined = [&](bool read) {
      return [&, read](int n) {
        const PipelinedScope scope;
        steps(n, read);
      };
    };
    const std::vector<double> ns = medians(20, {[&](int n) { steps(n, false); }, pipelined(false), pipelined(true)});
    fmt::print("training step 32x{:3}: direct {:6.1f} us, pipelined {:6.1f} us, {:.2f} x; reading each loss {:.2f} x\n",
               width, ns[0] / 1e3, ns[1] / 1e3, ns[0] / ns[1], ns[0] / ns[2]);
  }
}

}  // namespace
}  // namespace diptych
