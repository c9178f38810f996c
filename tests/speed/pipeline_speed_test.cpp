// What pipelined dispatch costs, stage by stage, and where it pays: the figures of docs/pipeline.md. Contenders are
// measured in the same interleaved rounds; figures without a bound are medians.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "reports/statistics/statistics.h"
#include "tests/support/speed_bound.h"

namespace diptych {
namespace {

using testing::Block;
using testing::expect_bounds;
using testing::InterleavedRounds;
using testing::seconds_of;

/// A contender that makes `n` calls itself.
template <class Calls>
Block calls_of(Calls calls) {
  return [=](int n) { return seconds_of(1, [&] { calls(n); }); };
}

/// Nanoseconds per call of each, over 21 rounds of blocks of that many calls.
std::vector<double> median_ns(int calls, const std::vector<Block>& contenders) {
  InterleavedRounds round(contenders, {}, {.calls = calls});
  std::vector<std::vector<double>> all(contenders.size());
  for (int i = 0; i < 21; ++i) {
    const std::vector<double> seconds = round();
    for (std::size_t j = 0; j < seconds.size(); ++j) {
      all[j].push_back(1e9 * seconds[j]);
    }
  }
  std::vector<double> result;
  for (const std::vector<double>& ns : all) {
    result.push_back(reports::median(ns));
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
  const std::vector<Block> stages = {calls_of([&](int n) {
                                       for (int i = 0; i < n; ++i) {
                                         TensorType type;
                                         op.infer({op, types, nullptr, {}}, type);
                                         keep(type);
                                       }
                                     }),
                                     calls_of([&](int n) {
                                       for (int i = 0; i < n; ++i) {
                                         keep(Tensor::empty(DType::float32, {4, 4}));
                                       }
                                     }),
                                     calls_of([&](int n) {
                                       set_dispatch(Dispatch::pipelined);
                                       adds(n);
                                       set_dispatch(Dispatch::direct);
                                       synchronize();
                                     })};
  const std::vector<double> ns =
      median_ns(20000, {stages[0], stages[1], calls_of(adds), stages[2], calls_of([&](int n) {
                          set_dispatch(Dispatch::pipelined);
                          for (int i = 0; i < n / 16; ++i) {
                            adds(1);
                            synchronize();
                          }
                          set_dispatch(Dispatch::direct);
                        })});
  fmt::print(
      "4x4 add: infer {:.0f} ns, allocate and free {:.0f} ns, direct {:.0f} ns, pipelined {:.0f} ns, launch and read "
      "{:.0f} ns\n",
      ns[0], ns[1], ns[2], ns[3], ns[4] * 16);
  // The point of direct dispatch for small ops, and of not splitting the stages over more queues: a queue costs more
  // than the stages that it would move.
  expect_bounds(stages,
                {{.what = "infer, allocate and free",
                  .limit = 1,
                  .figure = [](auto seconds) { return (seconds[0] + seconds[1]) / seconds[2]; },
                  .unit = "of a pipelined 4x4 add"}},
                {.calls = 20000});
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
    const std::vector<double> ns = median_ns(n > 10000 ? 1 : 20, {calls_of(chain), calls_of([&](int calls) {
                                                                    const PipelinedScope pipelined;
                                                                    chain(calls);
                                                                  })});
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
      return calls_of([&, read](int n) {
        const PipelinedScope scope;
        steps(n, read);
      });
    };
    const std::vector<double> ns =
        median_ns(20, {calls_of([&](int n) { steps(n, false); }), pipelined(false), pipelined(true)});
    fmt::print("training step 32x{:3}: direct {:6.1f} us, pipelined {:6.1f} us, {:.2f} x; reading each loss {:.2f} x\n",
               width, ns[0] / 1e3, ns[1] / 1e3, ns[0] / ns[1], ns[0] / ns[2]);
  }
}

}  // namespace
}  // namespace diptych
