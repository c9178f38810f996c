// Pipelined dispatch: the bits of direct dispatch, errors where they are read, bounds on what is ahead, threads.

#include "framework/runtime/pipeline.h"

#include <cmath>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/runtime/launch_queue.h"
#include "tests/graph/variants.h"

namespace diptych::runtime {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::message_of;
using diptych::testing::ramp;
using diptych::testing::wave;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// "pipeline_test.cpp:<line>"
std::string at(int line) { return "pipeline_test.cpp:" + std::to_string(line); }

/// Losses and final states of a classifier's training.
std::vector<Tensor> train(int steps, bool read_losses) {
  Rng rng(7);
  Variable w1(rng.normal({12, 24}, 0, 0.3), "w1");
  Variable b1(zeros({24}), "b1");
  Variable w2(rng.normal({24, 5}, 0, 0.3), "w2");
  const Variables weights{w1, b1, w2};
  optim::Adam adam(weights, 1e-2);
  auto gradients = value_and_grad(
      [&](const Tensor& x, const Tensor& labels) {
        return cross_entropy(matmul(tanh(matmul(x, w1) + b1.value()), w2), labels);
      },
      {.weights = weights});
  const Tensor x = rng.normal({16, 12});
  const Tensor labels = rng.integers({16}, 0, 5);
  std::vector<Tensor> seen;
  for (int i = 0; i < steps; ++i) {
    const auto result = gradients(x, labels);
    adam.step(result.weights);
    seen.push_back(result.value);
    if (read_losses) {
      EXPECT_TRUE(std::isfinite(result.value.item()));
    }
  }
  for (const Variable& weight : weights) {
    seen.push_back(weight.value());
  }
  return seen;
}

TEST(Pipelined, TrainingHasTheBitsOfDirectDispatch) {
  const std::vector<Tensor> direct = train(60, false);
  for (const bool read_losses : {false, true}) {
    std::vector<Tensor> pipelined;
    const std::uint64_t before = pipeline_stats().launches;
    {
      const PipelinedScope scope;
      pipelined = train(60, read_losses);
    }
    EXPECT_GT(pipeline_stats().launches, before + 60 * 30) << "else nothing was pipelined";
    expect_same_bits(pipelined, direct, read_losses ? "reading losses" : "running ahead");
  }
}

TEST(Pipelined, ViewsBroadcastsEmptyAndScalarTensorsAreAsEver) {
  const auto program = [] {
    const Tensor x = exp(wave({6, 8}, 1));
    const Tensor turned = transpose(x);
    const Tensor part = slice(turned, 0, 1, 7, 2);
    return std::vector<Tensor>{turned,
                               part + wave({6}, 2),
                               sum(part),
                               matmul(turned, x),
                               cast(part, DType::bfloat16) * cast(part, DType::bfloat16),
                               zeros({0, 4}) + wave({4}, 1),
                               reshape(part, {3, 6}) * Tensor::scalar(2.0F)};
  };
  const std::vector<Tensor> direct = program();
  const PipelinedScope scope;
  const std::vector<Tensor> pipelined = program();
  expect_same_bits(pipelined, direct, "views");
  EXPECT_EQ(pipelined[1].to_vector<float>(), direct[1].to_vector<float>());
  EXPECT_EQ(to_string(pipelined[2]), to_string(direct[2]));
  EXPECT_EQ(*matmul(wave({1, 3}, 1), ramp({3, 1})).data<float>(), matmul(wave({1, 3}, 1), ramp({3, 1})).item());
}

TEST(Pipelined, HigherOrderGradientsGoThroughTheQueue) {
  auto second = grad([inner = grad([](const Tensor& x) { return sum(tanh(x) * square(x)); })](const Tensor& x) mutable {
    return sum(inner(x));
  });
  const Tensor x = wave({5, 3}, 1);
  const Tensor direct = second(x);
  const PipelinedScope scope;
  expect_same_bits(second(x), direct, "second order");
}

TEST(PipelinedErrors, AppearAtTheReadWithOpAndLine) {
  const PipelinedScope scope;
  const Tensor fine = ramp({4}) + ramp({4});
  const int line = __LINE__ + 1;
  const Tensor broken = one_hot(i64({0, 9}, {2}), 3);
  const Tensor dependent = broken * 2.0F;
  const Tensor independent = fine * 3.0F;

  EXPECT_EQ(fine.to_vector<float>()[3], 8) << "what comes before a failure is untouched";
  const std::string message = message_of<Error>([&] { dependent.to_vector<float>(); });
  EXPECT_THAT(message, AllOf(HasSubstr("one_hot: index 9 at position 1"), HasSubstr(at(line)),
                             HasSubstr("DIPTYCH_LAUNCH_BLOCKING=1")));
  // Reported once; what was never computed says so whenever it is read.
  EXPECT_EQ(independent.to_vector<float>()[3], 24);
  synchronize();
  EXPECT_THAT(message_of<Error>([&] { broken.to_vector<float>(); }), HasSubstr(at(line)));
  EXPECT_THAT(message_of<Error>([&] { to_string(dependent); }), HasSubstr(at(line)));
  const Tensor later = reshape(dependent, {6}) + ramp({6});
  EXPECT_THAT(message_of<Error>([&] { later.data<float>(); }), HasSubstr(at(line)));
  EXPECT_EQ((ramp({4}) + fine).to_vector<float>()[0], 3) << "the queue works on";
}

TEST(PipelinedErrors, AreReportedByAReadOfAnythingLater) {
  const PipelinedScope scope;
  const Tensor broken = one_hot(i64({7}, {1}), 3);
  const Tensor later = ramp({2}) + 1.0F;
  EXPECT_THAT(message_of<Error>([&] { later.to_vector<float>(); }), HasSubstr("one_hot"));
  EXPECT_EQ(later.to_vector<float>()[1], 3);
}

TEST(PipelinedErrors, AreReportedBySynchronizeOnceAndOnlyTheFirst) {
  {
    const PipelinedScope scope;
    one_hot(i64({7}, {1}), 3);
    one_hot(i64({8}, {1}), 3);
  }
  EXPECT_EQ(dispatch(), Dispatch::direct);
  EXPECT_THAT(message_of<Error>([] { synchronize(); }), HasSubstr("index 7"));
  EXPECT_NO_THROW(synchronize());
}

TEST(PipelinedErrors, AreKeptUpToALimitAndNameTheirPlaceBeyondIt) {
  const PipelinedScope scope;
  std::string last;
  constexpr auto kTimes = static_cast<std::int64_t>(3 * kMostFailures);
  const std::size_t before = kept_failures();
  const int line = __LINE__ + 2;
  for (std::int64_t index = 10; index < kTimes; ++index) {
    last = message_of<Error>([&] { one_hot(i64({index}, {1}), 3).to_vector<float>(); });
  }
  EXPECT_THAT(last, AllOf(HasSubstr("one_hot: its kernel failed"), HasSubstr(at(line))));
  EXPECT_EQ(kept_failures(), before + kMostFailures + 1);
  EXPECT_THAT(message_of<Error>([&] { one_hot(i64({9}, {1}), 3).to_vector<float>(); }), HasSubstr("index 9"));
}

TEST(PipelinedErrors, ReachDirectOpsGraphsAndMutableData) {
  Tensor broken;
  {
    const PipelinedScope scope;
    broken = one_hot(i64({7}, {1}), 3);
  }
  EXPECT_THROW(synchronize(), Error);
  EXPECT_THAT(message_of<Error>([&] { broken + 1.0F; }), HasSubstr("one_hot"));
  auto twice = jit([](const Tensor& x) { return x * 2.0F; });
  EXPECT_THAT(message_of<Error>([&] { twice(broken); }), HasSubstr("one_hot"));
  EXPECT_THAT(message_of<Error>([&] { broken.mutable_data<float>(); }), HasSubstr("one_hot"));
  EXPECT_EQ(twice(ramp({1})).item(), 2);
}

TEST(PipelinedErrors, OfTypesStayAtTheCall) {
  const PipelinedScope scope;
  const std::string message = message_of<ShapeError>([] { matmul(ramp({2, 3}), ramp({2, 3})); });
  EXPECT_THAT(message, HasSubstr("matmul"));
  EXPECT_THAT(message_of<Error>([] { Tensor() + ramp({2}); }), HasSubstr("undefined"));
}

TEST(LaunchBlocking, BringsTheErrorBackToTheCall) {
  const PipelinedScope scope;
  set_launch_blocking(true);
  int line = 0;
  const std::string message = message_of<Error>([&] {
    line = __LINE__ + 1;
    one_hot(i64({7}, {1}), 3);
  });
  set_launch_blocking(false);
  EXPECT_THAT(message, AllOf(HasSubstr("one_hot: index 7"), HasSubstr(at(line))));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("DIPTYCH_LAUNCH_BLOCKING"))) << "it is on already";
  EXPECT_NO_THROW(synchronize());
  EXPECT_EQ((ramp({2}) + 1.0F).to_vector<float>()[1], 3);
}

TEST(LaunchBlocking, ComesFromTheEnvironmentForNewThreads) {
  for (const char* value : {"1", "0"}) {
    setenv("DIPTYCH_LAUNCH_BLOCKING", value, 1);
    bool blocking = false;
    std::thread([&] { blocking = launch_blocking(); }).join();
    EXPECT_EQ(blocking, *value == '1');
  }
  unsetenv("DIPTYCH_LAUNCH_BLOCKING");
}

TEST(LaunchQueue, HoldsTheHostWhenFull) {
  const PipelinedScope scope;
  synchronize();
  const Tensor slow = wave({64, 64}, 1);
  const PipelineStats before = pipeline_stats();
  Tensor x = slow;
  for (int i = 0; i < 3000; ++i) {
    x = tanh(matmul(x, slow) * 0.1F);
  }
  EXPECT_EQ(pipeline_stats().launches - before.launches, 4 * 3000U) << "the constant is an op too";
  EXPECT_GT(pipeline_stats().waits, before.waits);
  Tensor direct = slow;
  set_dispatch(Dispatch::direct);
  for (int i = 0; i < 3000; ++i) {
    direct = tanh(matmul(direct, slow) * 0.1F);
  }
  expect_same_bits(x, direct, "9000 launches");
}

/// The most that `n` ops in a chain have in use, in bytes.
std::int64_t peak_of_chain(std::int64_t elements, int n) {
  const Tensor x = ramp({elements});
  synchronize();
  allocator::reset_peak();
  const std::int64_t before = allocator::stats().bytes_in_use;
  Tensor y = x;
  for (int i = 0; i < n; ++i) {
    y = y + x;
  }
  synchronize();
  y = Tensor();
  EXPECT_EQ(allocator::stats().bytes_in_use, before) << "everything is back";
  return allocator::stats().peak_bytes - before;
}

TEST(LaunchQueue, BoundsTheMemoryOfWhatIsAheadAndRepeatsIt) {
  const PipelinedScope scope;
  // 256 KiB ahead, the newest result, and a quarter on top for size classes; or two launches of larger ones.
  EXPECT_LE(peak_of_chain(16 << 10, 500), (256 + 2 * 64) * 1024 * 5 / 4);
  EXPECT_LE(peak_of_chain(1 << 20, 20), (3 << 22) * 5 / 4 + 4096);
  // 256 launches of small ones, each a tensor and its elements.
  EXPECT_LE(peak_of_chain(16, 5000), 258 * (256 + 192));
  for (const std::int64_t elements : {16, 5000, 100000}) {
    const std::int64_t first = peak_of_chain(elements, 300);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(peak_of_chain(elements, 300), first) << "of " << elements << ": the threads' timing must not matter";
    }
  }
}

TEST(LaunchQueue, BlocksReturnToTheHostsCache) {
  const PipelinedScope scope;
  peak_of_chain(1000, 600);
  const std::int64_t before = allocator::stats().system_allocations;
  for (int i = 0; i < 20; ++i) {
    peak_of_chain(1000, 600);
  }
  EXPECT_EQ(allocator::stats().system_allocations, before);
}

TEST(LaunchQueue, FinishesWhenItsThreadEndsWithWorkPending) {
  Tensor result;
  std::thread([&] {
    set_dispatch(Dispatch::pipelined);
    result = wave({64, 64}, 1);
    for (int i = 0; i < 50; ++i) {
      result = tanh(matmul(result, result) * 0.1F);
    }
  }).join();
  Tensor direct = wave({64, 64}, 1);
  for (int i = 0; i < 50; ++i) {
    direct = tanh(matmul(direct, direct) * 0.1F);
  }
  expect_same_bits(result, direct, "after the end of the thread");
}

TEST(LaunchQueue, ReportsAnErrorThatNobodyReadAtTheEndOfTheThread) {
  ::testing::internal::CaptureStderr();
  std::thread([] {
    set_dispatch(Dispatch::pipelined);
    one_hot(i64({7}, {1}), 3);
  }).join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("one_hot: index 7"));
  ::testing::internal::CaptureStderr();
  std::thread([] {
    set_dispatch(Dispatch::pipelined);
    one_hot(i64({2}, {1}), 3);
  }).join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST(PipelinedThreads, EachHasItsOwnQueue) {
  const std::vector<Tensor> direct = train(15, false);
  std::vector<std::vector<Tensor>> results(6);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&result] {
      set_dispatch(Dispatch::pipelined);
      result = train(15, false);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& result : results) {
    expect_same_bits(result, direct, "beside other threads");
  }
}

// The other thread gets a tensor that is still being written, and releases it last.
TEST(PipelinedThreads, MayUseEachOthersTensors) {
  Tensor direct = wave({96, 96}, 1);
  for (int i = 0; i < 10; ++i) {
    direct = tanh(matmul(direct, direct) * 0.1F);
  }
  for (int round = 0; round < 20; ++round) {
    const PipelinedScope scope;
    Tensor mine = wave({96, 96}, 1);
    for (int i = 0; i < 10; ++i) {
      mine = tanh(matmul(mine, mine) * 0.1F);
    }
    const Tensor broken = one_hot(i64({7}, {1}), 3);
    std::thread([&, theirs = mine, broken]() mutable {
      if (round % 3 == 0) {
        EXPECT_TRUE(bitwise_equal(theirs, direct));
      } else {
        set_dispatch(round % 3 == 1 ? Dispatch::direct : Dispatch::pipelined);
        EXPECT_TRUE(bitwise_equal(theirs + 1.0F, direct + 1.0F));
      }
      EXPECT_THAT(message_of<Error>([&] { (broken + 1.0F).to_vector<float>(); }), HasSubstr("one_hot"));
    }).join();
    EXPECT_THAT(message_of<Error>([] { synchronize(); }), HasSubstr("one_hot")) << "still this thread's to know";
  }
}

TEST(PipelinedGraphs, ReadPendingArgumentsAndWriteTheirStateInPlace) {
  const auto program = [] {
    Variable total(zeros({8}), "total");
    auto accumulate = jit([&](const Tensor& x) {
      total.assign(total.value() * 0.5F + x);
      return sum(total.value());
    });
    std::vector<Tensor> seen;
    for (int i = 0; i < 10; ++i) {
      seen.push_back(accumulate(exp(wave({8}, static_cast<float>(i)))));
      seen.push_back(total.value() * 2.0F);  // a launch that reads the state which the next call writes
    }
    seen.push_back(copy(total.value()));
    return seen;
  };
  const std::vector<Tensor> direct = program();
  const PipelinedScope scope;
  expect_same_bits(program(), direct, "graph calls between launches");
}

TEST(PipelinedGraphs, CaptureAndFoldAsEver) {
  const Tensor outside = wave({4}, 1);
  const auto compile = [&] {
    const Tensor captured = exp(outside);  // pending while the graph is captured
    auto function = jit([captured](const Tensor& x) { return x * full({4}, 2.0) * square(full({4}, 3.0)) + captured; });
    const Tensor result = function(outside);
    return std::pair(result, function.compiled()->graph()->nodes.size());
  };
  const auto [direct, nodes] = compile();
  const PipelinedScope scope;
  const std::uint64_t before = pipeline_stats().launches;
  const auto [pipelined, pipelined_nodes] = compile();
  EXPECT_EQ(pipeline_stats().launches - before, 1U) << "exp alone: a graph has no launches";
  EXPECT_EQ(pipelined_nodes, nodes);
  expect_same_bits(pipelined, direct, "compiled while pipelined");
}

TEST(Pipelined, WritingElementsWaitsForLaunchesThatReadThem) {
  const PipelinedScope scope;
  for (int round = 0; round < 50; ++round) {
    Tensor x = ramp({20000});
    const Tensor y = tanh(tanh(x)) + x;
    x.mutable_data<float>()[19999] = 0;
    EXPECT_GT(y.to_vector<float>()[19999], 19999);
  }
}

TEST(Pipelined, UpdatesInPlaceKeepTheProgramsOrder) {
  const auto program = [] {
    const Tensor x = exp(wave({4000}, 1));
    const Tensor before = x * 2.0F;
    add_(x, before);
    copy_(slice(x, 0, 0, 2000), slice(x, 0, 2000, 4000));  // through views of one storage
    const Tensor between = sum(x);
    mul_(x, tanh(x));
    return std::vector<Tensor>{before, between, x, x + between};
  };
  const NoGrad no_tape;
  const std::vector<Tensor> direct = program();
  const PipelinedScope scope;
  for (int round = 0; round < 20; ++round) {
    expect_same_bits(program(), direct, "in place");
  }
}

TEST(PipelinedErrors, StopAnUpdateInPlace) {
  const PipelinedScope scope;
  const Tensor broken = one_hot(i64({7}, {1}), 3);
  EXPECT_THROW(synchronize(), Error);
  const Tensor x = zeros({1, 3});
  EXPECT_THAT(message_of<Error>([&] { add_(x, broken); }), HasSubstr("one_hot"));
  EXPECT_THAT(message_of<Error>([&] { copy_(x, broken); }), HasSubstr("one_hot"));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 0})) << "nothing was written";
}

TEST(Pipelined, ControlFlowReadsItsPredicates) {
  const auto program = [] {
    return while_loop([](const Tensor& x) { return less(sum(x), Tensor::scalar(500.0F)); },
                      [](const Tensor& x) { return x * 1.5F + 1.0F; }, exp(wave({7}, 1)));
  };
  const Tensor direct = program();
  const PipelinedScope scope;
  expect_same_bits(program(), direct, "while_loop");
}

TEST(Pipelined, FreshTensorsDontWait) {
  const PipelinedScope scope;
  const Tensor x = wave({128, 128}, 1);
  synchronize();
  const std::uint64_t waits = pipeline_stats().waits;
  const Tensor y = matmul(x, x);
  Rng rng(1);
  rng.normal({4});
  Tensor::from({1.0F, 2.0F}, {2}).to_vector<float>();
  EXPECT_EQ(pipeline_stats().waits, waits);
}

TEST(Pipelined, DatasetsOfPendingTensors) {
  const PipelinedScope scope;
  const data::Dataset all{exp(wave({6, 3}, 1)), cast(ramp({6}), DType::int64)};
  const std::vector<std::int64_t> rows{5, 1};
  EXPECT_EQ(all.select(rows).labels.to_vector<int>(), (std::vector<int>{6, 2}));
}

TEST(Pipelined, ScopesNestAndSwitchBack) {
  EXPECT_EQ(dispatch(), Dispatch::direct);
  {
    const PipelinedScope outer;
    {
      const PipelinedScope inner;
      set_dispatch(Dispatch::direct);
      const std::uint64_t before = pipeline_stats().launches;
      EXPECT_EQ((ramp({2}) + 1.0F).to_vector<float>()[0], 2);
      EXPECT_EQ(pipeline_stats().launches, before);
    }
    EXPECT_EQ(dispatch(), Dispatch::pipelined);
  }
  EXPECT_EQ(dispatch(), Dispatch::direct);
}

}  // namespace
}  // namespace diptych::runtime
