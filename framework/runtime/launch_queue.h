#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "framework/core/patience.h"
#include "framework/core/tensor_body.h"
#include "framework/kernels/bound_call.h"

namespace diptych::runtime {

/// The reason why a launch has no result. Kept until the program ends, because tensors point to it; equal ones are
/// stored once, and of those of one place kMostFailures.
struct Failure {
  enum class Kind : std::uint8_t { user, internal, memory };
  std::string what;
  Location where;
  Kind kind = Kind::user;
  std::string hint = {};
};
inline constexpr std::size_t kMostFailures = 64;

/// How many are kept.
std::size_t kept_failures();

[[noreturn]] void throw_failure(const Failure& failure, bool at_call);

/// A kernel call as the launch thread reads it. For a loop over dense operands, everything that the call needs is here,
/// in two cache lines: the tensors' own lines stay with the host, which reuses them for the next tensors.
struct alignas(64) Launch {
  const OpDef* op;
  Location where;
  std::uint32_t input_count;
  bool linear;
  bool has_attributes;
  struct Kernel {
    const TensorBody* inputs[kMaxInputs];
    const TensorBody* output;
  };
  union {
    kernels::LinearCall elementwise;
    Kernel kernel;
  };
  AttributeValue attributes;
};
static_assert(offsetof(Launch, attributes) == 128);

/// The tensors that the host holds until the launch is done.
struct Held {
  Tensor output;
  Tensor inputs[kMaxInputs];
  std::uint32_t input_count = 0;
  std::int64_t bytes = 0;  ///< of the output
};

/// A bounded ring of launches from one host thread to one launch thread, which runs them in order.
///
/// The host releases the operands, because blocks belong to the cache of the thread that frees them. It does so at
/// fixed distances rather than whenever it finds a launch done, so that the memory in use, and the block that an op
/// gets, depend on the program alone and not on the threads' timing.
class LaunchQueue {
 public:
  static constexpr std::uint64_t kCapacity = 256;  ///< launches
  /// The limit for the outputs of unreleased launches, if there are kFewest or more, so that they stay in the cache.
  static constexpr std::int64_t kMostBytes = 256 << 10;
  static constexpr std::uint64_t kFewest = 2;
  static constexpr std::uint64_t kReleaseBatch = 32;  ///< launches released at a time

  /// Throws Error if no thread can be started.
  LaunchQueue();
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  std::uint32_t id() const { return id_; }
  std::uint64_t submitted() const { return next_; }

  // The host thread only:

  /// Waits for room for a launch whose output has `bytes` bytes.
  void reserve(std::int64_t bytes) {
    const std::uint64_t count = next_ - released_;
    if (count == kCapacity || (in_flight_bytes_ + bytes > kMostBytes && count >= kFewest)) [[unlikely]] {
      make_room(bytes);
    }
  }
  /// Passes a kernel call to the launch thread, in the reserved room. `call.output` is the dense storage of `output`.
  void submit(const KernelCall& call, std::span<const Tensor* const> inputs, const Tensor& output, std::int64_t bytes,
              Location where);
  /// Waits for launch `number` and throws if it, or one before it, failed since the last report.
  void wait(std::uint64_t number) {
    if (known_done_ < number) [[unlikely]] {
      await(number);
    }
    if (has_failed_.load(std::memory_order_acquire)) [[unlikely]] {
      report(number);
    }
  }
  /// Waits for all launches and releases their operands.
  void drain() noexcept;
  /// Throws the failure of the first failed launch up to `number`, if there is one; the queue is then empty.
  void report(std::uint64_t number);
  /// The first failure that hasn't been reported, or null.
  const Failure* unreported();

  // Any thread:

  /// Waits for launch `number` without reporting failures.
  void wait_from_outside(std::uint64_t number);

  std::uint64_t waits() const { return waits_; }
  std::int64_t worker_allocations() const { return worker_allocations_.load(std::memory_order_acquire); }

 private:
  struct FailedLaunch {
    std::uint64_t number = 0;
    const Failure* failure = nullptr;
  };

  void make_room(std::int64_t bytes);
  void wake_worker() noexcept;
  void await(std::uint64_t number) noexcept;
  void release_until(std::uint64_t number) noexcept;

  void work() noexcept;
  /// The number of submitted launches, once it exceeds `done`; `done` itself at the end.
  std::uint64_t next_work(std::uint64_t done) noexcept;
  void run(const Launch& launch, std::uint64_t number) noexcept;
  void fail(std::uint64_t number, const Failure* failure) noexcept;
  /// The reason why an input of a launch was never written, or null.
  const Failure* failure_of_inputs(std::uint64_t number) const;
  Held& held(std::uint64_t number) { return held_[(number - 1) % kCapacity]; }
  const Held& held(std::uint64_t number) const { return held_[(number - 1) % kCapacity]; }

  // Used by the host only.
  std::uint64_t next_ = 0;        ///< launches submitted
  std::uint64_t released_ = 0;    ///< of these, the number whose operands are released
  std::uint64_t known_done_ = 0;  ///< the last value of done_ that the host has seen
  std::int64_t in_flight_bytes_ = 0;
  std::uint64_t waits_ = 0;
  Patience host_patience_;
  std::uint32_t id_;

  alignas(64) std::atomic<std::uint64_t> submitted_{0};
  std::atomic<bool> worker_asleep_{false};  ///< rarely written, so that its line stays with the host
  std::atomic<bool> stop_{false};

  alignas(64) std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> wake_host_at_{UINT64_MAX};
  std::atomic<bool> has_failed_{false};
  std::atomic<std::int64_t> worker_allocations_{0};
  bool any_failure_ = false;  ///< worker only: whether any launch has ever failed
  Patience worker_patience_;  ///< worker only

  alignas(64) std::mutex mutex_;  ///< guards sleeping and `failed_first_`
  std::condition_variable work_;
  std::condition_variable progress_;
  /// Since the last report; number 0: none. The worker has no memory to list all of them where it is refused more.
  FailedLaunch failed_first_{};

  std::array<Launch, kCapacity> ring_;
  std::array<Held, kCapacity> held_;
  std::thread worker_;
};

}  // namespace diptych::runtime
