#include "framework/core/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/patience.h"

namespace diptych {
namespace {

/// 0 if it isn't a number of threads that can compute.
int count_of(const char* text) {
  int count = 0;
  if (text != nullptr) {
    const char* const end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, count);
    if (parsed.ec != std::errc() || parsed.ptr != end || count > kMostThreads) {
      return 0;
    }
  }
  return std::max(count, 0);
}

/// Parts per thread: if one thread is held up, another takes over some of its parts.
constexpr int kTurns = 4;

/// Whether this thread runs a part.
thread_local bool is_in_part = false;

/// A thread's own work between two kernels that are divided, such as ops and small kernels, is shorter than this.
constexpr int kWorkerPatience = 8;

double least_nanoseconds = kLeastNanosecondsOfPart;

double least_divided_by(int threads) {
  return threads == 1 ? std::numeric_limits<double>::infinity() : 2 * least_nanoseconds;
}
std::int64_t in_elements(double nanoseconds) {
  const double elements = nanoseconds / kNanosecondsOfScalar;
  constexpr double kMost = 1e18;
  return elements < kMost ? static_cast<std::int64_t>(elements) : std::numeric_limits<std::int64_t>::max();
}

/// When the number of threads or the least part changes.
void set_least_divided() {
  detail::least_divided = least_divided_by(thread_count());
  detail::least_divided_elements = in_elements(detail::least_divided);
}

/// Some of a job's parts, which one thread takes first, so that it finds in its cache what it wrote in the job before.
/// `word` is the job's number (32 bits), the next part (16) and the end (16). A part is taken by exchanging the word,
/// which fails once the job is over: what belongs to the job may be read after that, and not before.
struct alignas(64) Share {
  std::atomic<std::uint64_t> word{0};

  static std::uint64_t word_of(std::uint32_t job, int first, int last) {
    return std::uint64_t{job} << 32U | static_cast<std::uint64_t>(first) << 16U | static_cast<std::uint64_t>(last);
  }
  /// The number of a part, or -1 if there is none left.
  int take() {
    constexpr std::uint64_t kPart = 0xffff;
    std::uint64_t current = word.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t next = current >> 16U & kPart;
      if (next >= (current & kPart)) {
        return -1;
      }
      if (word.compare_exchange_weak(current, current + (kPart + 1), std::memory_order_acquire)) {
        return static_cast<int>(next);
      }
    }
  }
};
static_assert(kMostThreads * kTurns < 0xffff);

class Pool {
 public:
  ~Pool() {
    stop_.store(true, std::memory_order_relaxed);
    wake_workers();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  /// Starts workers until there are so many. Throws std::system_error.
  void grow(int workers) {
    const std::lock_guard lock(host_);
    while (static_cast<int>(workers_.size()) < workers) {
      const int index = static_cast<int>(workers_.size()) + 1;
      workers_.emplace_back([this, index, seen = jobs_.load(std::memory_order_relaxed)] { work(index, seen); });
      pthread_setname_np(workers_.back().native_handle(), fmt::format("diptych-{}", index).c_str());
    }
  }

  /// False if another thread uses the pool.
  bool run(int threads, int parts, std::int64_t count, const void* body, detail::RunPart part) {
    const std::unique_lock lock(host_, std::try_to_lock);
    if (!lock) {
      return false;
    }
    threads = std::min(threads, static_cast<int>(workers_.size()) + 1);
    threads_.store(threads, std::memory_order_relaxed);
    parts_ = parts;
    count_ = count;
    body_ = body;
    run_part_ = part;
    done_.store(0, std::memory_order_relaxed);
    const std::uint32_t job = jobs_.load(std::memory_order_relaxed) + 1;
    for (int i = 0; i < threads; ++i) {
      const std::uint64_t word = Share::word_of(job, parts * i / threads, parts * (i + 1) / threads);
      shares_[static_cast<std::size_t>(i)].word.store(word, std::memory_order_release);
    }
    wake_workers();
    is_in_part = true;
    take_parts(0, threads);
    is_in_part = false;
    const auto all_done = [&] { return done_.load(std::memory_order_acquire) == parts; };
    if (!host_patience_.spin_until(all_done)) {
      for (int done = done_.load(std::memory_order_acquire); done != parts;
           done = done_.load(std::memory_order_acquire)) {
        done_.wait(done, std::memory_order_acquire);
      }
    }
    if (has_failed_.load(std::memory_order_relaxed)) {
      has_failed_.store(false, std::memory_order_relaxed);
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    return true;
  }

 private:
  void wake_workers() {
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
  }

  void work(int index, std::uint32_t seen) {
    is_in_part = true;
    Patience patience(kWorkerPatience);
    for (;;) {
      if (!patience.spin_until([&] { return jobs_.load(std::memory_order_acquire) != seen; })) {
        jobs_.wait(seen, std::memory_order_acquire);
      }
      seen = jobs_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) {
        return;
      }
      take_parts(index, threads_.load(std::memory_order_relaxed));
    }
  }

  void take_parts(int index, int threads) {
    if (index >= threads) {
      return;
    }
    for (int i = 0; i < threads; ++i) {
      Share& share = shares_[static_cast<std::size_t>((index + i) % threads)];
      for (int part = share.take(); part >= 0; part = share.take()) {
        run_part(part);
      }
    }
  }

  void run_part(std::int64_t part) {
    const int parts = parts_;  // of this job: it isn't over before this part is done
    if (!has_failed_.load(std::memory_order_relaxed)) {
      try {
        run_part_(body_, count_ * part / parts, count_ * (part + 1) / parts);
      } catch (...) {
        if (!has_failed_.exchange(true, std::memory_order_relaxed)) {
          error_ = std::current_exception();
        }
      }
    }
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == parts) {
      done_.notify_one();
    }
  }

  std::mutex host_;  ///< held by the thread whose job it is
  Patience host_patience_;
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_{false};
  std::atomic<int> threads_{1};
  // The job.
  int parts_ = 0;
  std::int64_t count_ = 0;
  const void* body_ = nullptr;
  detail::RunPart run_part_ = nullptr;
  std::exception_ptr error_;
  std::atomic<bool> has_failed_{false};
  alignas(64) std::atomic<int> done_{0};            ///< parts
  alignas(64) std::atomic<std::uint32_t> jobs_{0};  ///< what workers wait for
  std::array<Share, kMostThreads> shares_;
};

/// A child of fork() has none of its parent's threads: it starts its own when they are needed, and the parent's pool,
/// which may be in the middle of a job, is left as it is.
std::atomic<Pool*> pool{nullptr};

Pool& started_pool(int workers) {
  static std::mutex mutex;
  static const int registered = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                                               [] {
                                                 pool.store(nullptr);
                                                 is_in_part = false;
                                                 mutex.unlock();
                                               });
  (void)registered;
  struct Stop {
    ~Stop() {
      set_thread_count(1);
      delete pool.exchange(nullptr);
    }
  };
  static const Stop stop;
  const std::lock_guard lock(mutex);
  try {
    if (pool.load() == nullptr) {
      pool.store(new Pool);
    }
    pool.load()->grow(workers);
  } catch (const std::system_error& error) {
    throw Error(fmt::format("{} threads can't be started: {}; ask for fewer, or raise the limit (ulimit -u)",
                            workers + 1, error.what()));
  }
  return *pool.load();
}

}  // namespace

namespace detail {

int initial_thread_count() { return std::max(count_of(std::getenv("DIPTYCH_THREADS")), 1); }

double initial_least_divided() { return least_divided_by(initial_thread_count()); }
std::int64_t initial_least_divided_elements() { return in_elements(initial_least_divided()); }

void run_in_parts(std::int64_t count, double nanoseconds, const void* body, RunPart run) {
  const int threads = active_thread_count;
  const double worth = static_cast<double>(count) * nanoseconds;
  double parts = std::min(static_cast<double>(count), static_cast<double>(threads * kTurns));
  if (least_nanoseconds > 0) {
    parts = std::min(parts, worth / least_nanoseconds);
  }
  if (parts > threads) {
    parts -= std::fmod(parts, threads);  // as many for each
  }
  if (parts < 2 || threads == 1 || is_in_part) {
    run(body, 0, count);
    return;
  }
  Pool* const current = pool.load(std::memory_order_acquire);
  Pool& chosen = current != nullptr ? *current : started_pool(threads - 1);
  if (!chosen.run(threads, static_cast<int>(parts), count, body, run)) {
    run(body, 0, count);
  }
}

}  // namespace detail

void expect_possible_thread_count() {
  const char* wanted = std::getenv("DIPTYCH_THREADS");
  if (wanted != nullptr && count_of(wanted) == 0) {
    throw Error(fmt::format("DIPTYCH_THREADS is '{}': give a number from 1 to {}", wanted, kMostThreads));
  }
}

void set_thread_count(int count) {
  if (count == thread_count()) {
    return;
  }
  if (count < 1 || count > kMostThreads) {
    throw Error(fmt::format("{} threads can't compute: give a number from 1 to {}", count, kMostThreads));
  }
  if (count > 1) {
    started_pool(count - 1);
  }
  detail::active_thread_count = count;
  set_least_divided();
}

UseThreads::~UseThreads() {
  try {
    set_thread_count(before_);
  } catch (const Error&) {  // results are the same
  }
}

void set_least_nanoseconds_of_part(double nanoseconds) {
  least_nanoseconds = nanoseconds;
  set_least_divided();
}

}  // namespace diptych
