// The memory that kernels need while they compute, and what happens where the system refuses it to one of several
// threads.

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <unistd.h>

#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/diptych.h"
#include "tests/support/in_child.h"
#include "tests/support/sanitizers.h"
#include "tests/support/with_gemm.h"
#include "tests/support/with_threads.h"

namespace {

// Kernels keep their scratch in memory that is aligned to cache lines, and nothing else here does.
std::atomic<std::int64_t> scratch_bytes{0};
std::atomic<bool> is_refused{false};

bool is_first_thread() { return gettid() == getpid(); }

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* data = nullptr;
  if ((is_refused.load() && !is_first_thread()) ||
      posix_memalign(&data, static_cast<std::size_t>(alignment), bytes) != 0) {
    throw std::bad_alloc();
  }
  scratch_bytes += static_cast<std::int64_t>(bytes);
  return data;
}
void operator delete(void* data, std::align_val_t /*alignment*/) noexcept { std::free(data); }
void operator delete(void* data, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { std::free(data); }

namespace diptych::testing {
namespace {

/// What a call takes besides its inputs, its result included. Scratch that was allocated before isn't counted.
template <class Call>
std::int64_t memory_of(const Call& call) {
  allocator::trim();
  allocator::reset_peak();
  const std::int64_t before = allocator::stats().bytes_in_use;
  const std::int64_t scratch = scratch_bytes;
  call();
  return allocator::stats().peak_bytes - before + scratch_bytes - scratch;
}

TEST(MemoryOfAttention, GrowsWithTheLengthNotWithItsSquare) {
  const WithGemm tiles(kernels::Gemm::tiles);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q, k, v);
  };
  auto gradients = grad([&](const Tensor& q, const Tensor& k, const Tensor& v) { return sum(attend(q, k, v)); },
                        std::vector{0, 1, 2});
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (const std::int64_t length : {2048, 4096, 8192}) {
    Rng rng(1);
    const Tensor q = rng.normal({1, length, 16});
    const Tensor k = rng.normal({1, length, 16});
    const Tensor v = rng.normal({1, length, 16});
    const std::int64_t scores = length * length * 4;
    const std::int64_t mine = memory_of([&] { attend(q, k, v); });
    const std::int64_t of_gradients = memory_of([&] { gradients(q, k, v); });
    EXPECT_LT(mine, scores / 8) << length;
    EXPECT_LT(of_gradients, scores / 2) << length;
    if (forward > 0) {
      EXPECT_LT(mine, forward * 5 / 2) << length;
      EXPECT_LT(of_gradients, backward * 5 / 2) << length;
    }
    forward = mine;
    backward = of_gradients;
  }
}

/// Whether `call` throws std::bad_alloc while workers are refused memory. Where the first thread has taken all parts
/// before a worker woke up, again.
template <class Call>
bool is_out_of_memory(const Call& call) {
  is_refused = true;
  bool thrown = false;
  for (int i = 0; i < 1000 && !thrown; ++i) {
    try {
      call();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
  }
  is_refused = false;
  return thrown;
}

TEST(MemoryRefusedToAWorker, IsAnErrorAndTheNextCallIsRight) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  const WithGemm tiles(kernels::Gemm::tiles);
  Rng rng(1);
  const Tensor a = rng.normal({300, 700});
  const Tensor b = rng.normal({700, 500});
  const Tensor q = rng.normal({3, 500, 16});
  const std::vector<std::function<Tensor()>> calls = {[&] { return matmul(a, b); },
                                                      [&] { return scaled_dot_product_attention(q, q, q); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Tensor expected = calls[i]();
    EXPECT_TRUE(in_child([&] {
      const WithThreads three(3, true);
      return is_out_of_memory(calls[i]) && bitwise_equal(calls[i](), expected);
    })) << i;
  }
}

TEST(MemoryRefusedToAWorker, LeavesAStateAsItWas) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  const WithGemm tiles(kernels::Gemm::tiles);
  Rng rng(1);
  const Tensor x = rng.normal({300, 700});
  const Tensor first = rng.normal({700, 500});
  const auto step_of = [&](Variable& w) {
    return [&](const Tensor& in) {
      w.assign(w.value() - matmul(transpose(in), matmul(in, w.value())) * 0.001F);
      return sum(in);
    };
  };
  EXPECT_TRUE(in_child([&] {
    Variable w(copy(first), "w");
    auto step = jit(step_of(w));
    const WithThreads three(3, true);
    Tensor before;  // calls that the first thread computed alone have changed the state
    const bool is_thrown = is_out_of_memory([&] {
      before = copy(w.value());
      step(x);
    });
    if (!is_thrown || !bitwise_equal(w.value(), before)) {
      return false;
    }
    Variable by_hand(before, "w");
    step_of(by_hand)(x);
    step(x);
    return bitwise_equal(w.value(), by_hand.value());
  }));
}

}  // namespace
}  // namespace diptych::testing
