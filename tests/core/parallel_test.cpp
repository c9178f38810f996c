#include "framework/core/parallel.h"

#include <atomic>
#include <mutex>
#include <numeric>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/support/in_child.h"
#include "tests/support/message_of.h"
#include "tests/support/on_one_cpu.h"
#include "tests/support/sanitizers.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

TEST(Parallel, PartsCoverEachItemOnce) {
  for (const int threads : {1, 2, 3, 4, 17}) {
    const WithThreads with(threads, true);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      parallel_for(count, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          ++seen[static_cast<std::size_t>(i)];
        }
      });
      for (const auto& times : seen) {
        ASSERT_EQ(times, 1) << threads << " threads, " << count << " items";
      }
    }
  }
}

/// The threads that run parts which all wait for each other: as many as there are, or the test hangs.
std::size_t threads_at_once(int count) {
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  parallel_for(count, 1e9, [&](std::int64_t first, std::int64_t last) {
    EXPECT_EQ(last - first, 1);
    ++arrived;
    while (arrived < count) {
      std::this_thread::yield();
    }
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  return ids.size();
}

TEST(Parallel, AllThreadsTakePart) {
  for (const int threads : {2, 4, 3}) {
    const WithThreads with(threads);
    EXPECT_EQ(threads_at_once(threads), static_cast<std::size_t>(threads));
  }
}

TEST(Parallel, FewerThreadsThanHaveBeenStarted) {
  const WithThreads four(4, true);
  const WithThreads two(2, true);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  for (int i = 0; i < 200; ++i) {
    parallel_for(64, 1, [&](std::int64_t /*first*/, std::int64_t /*last*/) {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  }
  EXPECT_LE(ids.size(), 2U);
}

TEST(Parallel, LittleWorkIsNotDivided) {
  const WithThreads with(4);
  int calls = 0;
  parallel_for(1000, kLeastNanosecondsOfPart / 1000, [&](std::int64_t first, std::int64_t last) {
    ++calls;
    EXPECT_EQ(last - first, 1000);
  });
  EXPECT_EQ(calls, 1);
}

TEST(Parallel, APartInsideAPartIsNotDivided) {
  const WithThreads with(3, true);
  std::atomic<int> inner{0};
  parallel_for(3, 1, [&](std::int64_t /*first*/, std::int64_t /*last*/) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(100, 1, [&](std::int64_t first, std::int64_t last) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      EXPECT_EQ(last - first, 100);
      ++inner;
    });
  });
  EXPECT_EQ(inner, 3);
}

TEST(Parallel, AnExceptionOfAnyPartIsThrownAndThePoolGoesOn) {
  const WithThreads with(4, true);
  for (std::int64_t bad = 0; bad < 16; ++bad) {
    const auto run = [&] {
      parallel_for(16, 1, [&](std::int64_t first, std::int64_t last) {
        if (first <= bad && bad < last) {
          throw Error("the memory is used up");
        }
      });
    };
    EXPECT_EQ(message_of(run), "the memory is used up");
    EXPECT_EQ(threads_at_once(4), 4U);
  }
}

TEST(Parallel, MemoryThatIsRefusedToAPartIsThrownAndThePoolGoesOn) {
  const WithThreads with(4, true);
  for (std::int64_t bad = 0; bad < 16; ++bad) {
    EXPECT_THROW(parallel_for(16, 1,
                              [&](std::int64_t first, std::int64_t last) {
                                if (first <= bad && bad < last) {
                                  throw std::bad_alloc();
                                }
                              }),
                 std::bad_alloc);
    EXPECT_EQ(threads_at_once(4), 4U);
  }
}

TEST(Parallel, HostsOnSeveralThreadsComputeAtTheSameTime) {
  const WithThreads with(3, true);
  std::vector<std::thread> hosts;
  std::atomic<std::int64_t> wrong{0};
  for (int host = 0; host < 4; ++host) {
    hosts.emplace_back([&wrong] {
      for (int i = 0; i < 500; ++i) {
        std::vector<std::int64_t> values(97);
        parallel_for(97, 1, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t k = first; k < last; ++k) {
            values[static_cast<std::size_t>(k)] = k;
          }
        });
        wrong += std::accumulate(values.begin(), values.end(), std::int64_t{0}) != 97 * 96 / 2;
      }
    });
  }
  for (std::thread& host : hosts) {
    host.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Parallel, AChildOfForkStartsItsOwnThreads) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  const WithThreads with(3, true);
  EXPECT_EQ(threads_at_once(3), 3U);
  EXPECT_TRUE(in_child([] { return thread_count() == 3 && threads_at_once(3) == 3; }));
  EXPECT_EQ(threads_at_once(3), 3U);
}

/// The fork()s of a harness don't wait until the pool is idle, or come from outside of it.
TEST(Parallel, AChildOfForkStartsItsOwnThreadsInTheMiddleOfAJob) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  const WithThreads with(3, true);
  std::atomic<bool> is_running{true};
  std::thread host([&] {
    while (is_running) {
      parallel_for(64, 1, [](std::int64_t /*first*/, std::int64_t /*last*/) { std::this_thread::yield(); });
    }
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(in_child([] { return threads_at_once(3) == 3; })) << i;
  }
  is_running = false;
  host.join();
  std::atomic<int> right{0};
  parallel_for(3, 1, [&](std::int64_t /*first*/, std::int64_t /*last*/) {
    right += in_child([] { return threads_at_once(3) == 3; }) ? 1 : 0;
  });
  EXPECT_EQ(right, 3) << "from a part";
  EXPECT_EQ(threads_at_once(3), 3U);
}

std::set<int> cpus_of_parts(int threads) {
  std::mutex mutex;
  std::set<int> cpus;
  parallel_for(std::int64_t{threads} * 8, 1e9, [&](std::int64_t /*first*/, std::int64_t /*last*/) {
    const std::lock_guard lock(mutex);
    cpus.insert(sched_getcpu());
  });
  return cpus;
}

TEST(Parallel, ComputesOnTheOnlyCpuThatItMayUse) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  EXPECT_TRUE(in_child([] {
    const OnOneCpu one;
    const WithThreads with(3, true);
    return threads_at_once(3) == 3 && cpus_of_parts(3) == std::set{one.cpu()};
  }));
}

TEST(Parallel, GoesOnWhereTheAffinityMaskShrinks) {
  if (kHasThreadSanitizer) {
    GTEST_SKIP() << "under ThreadSanitizer a child of a process with threads can't start threads";
  }
  EXPECT_TRUE(in_child([] {
    const WithThreads with(3, true);
    const bool is_right = threads_at_once(3) == 3;
    const OnOneCpu one;
    return is_right && threads_at_once(3) == 3;
  }));
}

TEST(Parallel, TheEnvironmentSaysHowManyThreads) {
  const auto problem_of = [](const char* wanted) {
    setenv("DIPTYCH_THREADS", wanted, 1);
    const std::string problem = message_of([] { expect_possible_thread_count(); });
    unsetenv("DIPTYCH_THREADS");
    return problem;
  };
  EXPECT_EQ(problem_of("2"), "no error");
  for (const char* wrong : {"0", "-1", "257", "99999999999", "two", "2 ", ""}) {
    EXPECT_EQ(problem_of(wrong), "DIPTYCH_THREADS is '" + std::string(wrong) + "': give a number from 1 to 256");
  }
  EXPECT_EQ(message_of([] { expect_possible_thread_count(); }), "no error");
}

TEST(Parallel, RefusesImpossibleCounts) {
  EXPECT_EQ(message_of([] { set_thread_count(0); }), "0 threads can't compute: give a number from 1 to 256");
  EXPECT_EQ(message_of([] { set_thread_count(257); }), "257 threads can't compute: give a number from 1 to 256");
  EXPECT_EQ(thread_count(), 1);
}

TEST(Parallel, ThreadsThatCannotBeStartedAreAnError) {
  if (kHasAddressSanitizer || kHasThreadSanitizer) {
    GTEST_SKIP() << "sanitizers need the address space that this test takes away";
  }
  EXPECT_TRUE(in_child([] {
    const rlimit little{std::uint64_t{64} << 20U, std::uint64_t{64} << 20U};  // a stack has 8 MB
    setrlimit(RLIMIT_AS, &little);
    return message_of([] { set_thread_count(200); }).find("200 threads can't be started") == 0 && thread_count() == 1 &&
           threads_at_once(1) == 1;
  }));
}

}  // namespace
}  // namespace diptych::testing
