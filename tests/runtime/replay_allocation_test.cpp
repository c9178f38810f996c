// Counts every operator new and every engine block of a replayed call.

#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "tests/graph/variants.h"

namespace {

thread_local std::size_t heap_allocations = 0;

void* counted(std::size_t bytes) {
  ++heap_allocations;
  void* data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) {
    std::abort();
  }
  return data;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete[](void* data, std::size_t) noexcept { std::free(data); }

namespace diptych::runtime {
namespace {

using diptych::testing::wave;

struct Price {
  std::size_t heap = 0;
  std::int64_t blocks = 0;
  std::int64_t system = 0;
};

/// One call of a warm executable, without what jit puts around it.
Price price_of_replay(const graph::JitFunction& function, const std::vector<Tensor>& arguments) {
  auto& executable = const_cast<Executable&>(*function.executable());
  std::vector<Tensor> outputs;
  outputs.reserve(16);
  for (int i = 0; i < 3; ++i) {
    outputs.clear();
    executable.run(arguments, outputs);
  }
  outputs.clear();
  Price price;
  const AllocatorStats before = allocator::stats();
  const std::size_t heap_before = heap_allocations;
  executable.run(arguments, outputs);
  price.heap = heap_allocations - heap_before;
  const AllocatorStats after = allocator::stats();
  price.blocks = after.allocations - before.allocations;
  price.system = after.system_allocations - before.system_allocations;
  return price;
}

TEST(ReplayAllocations, AreTheFreshOutputsAndNothingElse) {
  Variable w(wave({16, 16}, 1), "w");
  Variable m(zeros({16, 16}), "m");
  auto step = jit([&](const Tensor& x) {
    auto transform = value_and_grad(
        [&](const Tensor& y) { return mean(square(tanh(matmul(y, w.value()) + sum(y, {0})))); }, {.weights = {w}});
    const auto result = transform(x);
    m.assign(m.value() * 0.9F + result.weights[0]);
    w.assign(w.value() - m.value() * 0.1F);
    return std::pair(result.value, softmax(matmul(x, w.value())));
  });
  const std::vector<Tensor> x{wave({8, 16}, 2)};
  step(x[0]);
  const Price price = price_of_replay(*step.compiled(), x);
  EXPECT_EQ(price.heap, 0U);
  EXPECT_EQ(price.blocks, 2 * 2) << "a body and a storage for each output";
  EXPECT_EQ(price.system, 0);
  EXPECT_EQ(step.compiled()->executable()->stats().allocations, 2U);
}

TEST(ReplayAllocations, AreNoneWithoutOutputs) {
  Variable w(wave({16}, 1), "w");
  auto step = jit([&](const Tensor& x) {
    w.assign(exp(neg(w.value()) * x) + 1);
    return std::vector<Tensor>{};
  });
  const std::vector<Tensor> x{wave({16}, 2)};
  step(x[0]);
  const Price price = price_of_replay(*step.compiled(), x);
  EXPECT_EQ(price.heap, 0U);
  EXPECT_EQ(price.blocks, 0);
}

TEST(ReplayAllocations, WithoutAPlanAreOnePerTemporaryToo) {
  auto function = jit([](const Tensor& x) { return sum(exp(x) * x); }, {.pipeline = passes::PipelineOptions::none()});
  const std::vector<Tensor> x{wave({100}, 2)};
  function(x[0]);
  const Price price = price_of_replay(*function.compiled(), x);
  EXPECT_EQ(price.heap, 0U);
  EXPECT_EQ(price.blocks, 2 + 2);
  EXPECT_EQ(price.system, 0);
}

TEST(ReplayAllocations, OfAWholeCallStayTheSame) {
  auto function = jit([](const Tensor& x) { return std::vector<Tensor>{x + 1, exp(x), x}; });
  const Tensor x = wave({100}, 2);
  function(x);
  function(x);
  const AllocatorStats before = allocator::stats();
  for (int i = 0; i < 100; ++i) {
    function(x);
  }
  const AllocatorStats after = allocator::stats();
  EXPECT_EQ(after.allocations - before.allocations, 100 * 3 * 2);
  EXPECT_EQ(after.system_allocations, before.system_allocations);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use) << "nothing is kept";
}

TEST(ReplayAllocations, AHeldStateCostsOneCopyOnce) {
  Variable w(wave({64}, 1), "w");
  auto step = jit([&](const Tensor& x) {
    w.assign(w.value() + x);
    return std::vector<Tensor>{};
  });
  const std::vector<Tensor> x{wave({64}, 2)};
  step(x[0]);
  step(x[0]);
  const Tensor held = w.value();
  const std::int64_t before = allocator::stats().allocations;
  step(x[0]);
  EXPECT_EQ(allocator::stats().allocations - before, 2) << "the state moves to storage of its own";
  step(x[0]);
  EXPECT_EQ(allocator::stats().allocations - before, 2);
}

}  // namespace
}  // namespace diptych::runtime
