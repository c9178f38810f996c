#include "framework/runtime/launch_queue.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <pthread.h>

#include <fmt/format.h>

#include "framework/core/allocator.h"
#include "framework/core/context.h"
#include "framework/dispatch/element_error.h"
#include "framework/kernels/elementwise.h"
#include "framework/runtime/pipeline.h"

namespace diptych::runtime {
namespace {

constexpr trace::Label kWait{"wait", trace::Category::op};

std::atomic<std::uint32_t> queue_counter{1};

struct Failures {
  std::mutex mutex;
  std::deque<Failure> all;
  const Failure out_of_memory{"out of memory", {}, Failure::Kind::memory};
};
Failures& failures() {
  static auto& kept = *new Failures;
  return kept;
}

const Failure* keep(Failure failure) {
  Failures& kept = failures();
  const std::lock_guard lock(kept.mutex);
  std::size_t of_place = 0;
  const auto find = [&] {
    of_place = 0;
    for (const Failure& known : kept.all) {
      const bool is_here = known.where.line == failure.where.line && known.where.file == failure.where.file;
      of_place += is_here ? 1 : 0;
      if (is_here && known.what == failure.what) {
        return &known;
      }
    }
    return static_cast<const Failure*>(nullptr);
  };
  const Failure* known = find();
  if (known == nullptr && of_place >= kMostFailures) {  // as of indices that a loop catches, for hours
    failure.what = failure.what.substr(0, failure.what.find(':')) + ": its kernel failed, as very often here";
    known = find();
  }
  return known != nullptr ? known : &kept.all.emplace_back(std::move(failure));
}

const Failure* describe_current_exception(const Launch& launch) noexcept {
  const char* name = launch.op->name;
  const auto named = [&](std::string_view what) {
    return what.starts_with(name) ? std::string(what) : fmt::format("{}: {}", name, what);
  };
  try {
    try {
      throw;
    } catch (const InternalError& error) {
      return keep({named(error.what()), launch.where, Failure::Kind::internal});
    } catch (const ElementError& error) {
      return keep({error.problem(), launch.where, Failure::Kind::user, error.hint()});
    } catch (const std::bad_alloc&) {
      return &failures().out_of_memory;
    } catch (const std::exception& error) {
      return keep({named(error.what()), launch.where});
    } catch (...) {
      return keep({named("its kernel failed"), launch.where});
    }
  } catch (...) {  // to describe it takes memory
    return &failures().out_of_memory;
  }
}

}  // namespace

void throw_failure(const Failure& failure, bool at_call) {
  if (failure.kind == Failure::Kind::memory) {
    throw std::bad_alloc();
  }
  if (failure.kind == Failure::Kind::internal) {
    throw InternalError(fmt::format("{}, at {}", failure.what, to_string(failure.where)));
  }
  if (at_call) {
    ElementError error(failure.what, failure.hint);
    error.locate(failure.where);
    throw error;
  }
  throw Error(
      failure.what, failure.where,
      fmt::format("{}{}the op was pipelined, and this is the next read; DIPTYCH_LAUNCH_BLOCKING=1 stops at the op",
                  failure.hint, failure.hint.empty() ? "" : "; "));
}

std::size_t kept_failures() {
  Failures& kept = failures();
  const std::lock_guard lock(kept.mutex);
  return kept.all.size();
}

LaunchQueue::LaunchQueue() : id_(queue_counter.fetch_add(1, std::memory_order_relaxed)) {
  failures();  // made while there is memory
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(fmt::format("set_dispatch: the launch thread can't be started: {}", error.what()));
  }
}

LaunchQueue::~LaunchQueue() {
  drain();
  stop_.store(true);
  {
    const std::lock_guard lock(mutex_);
    work_.notify_one();
  }
  worker_.join();
}

void LaunchQueue::submit(const KernelCall& call, std::span<const Tensor* const> inputs, const Tensor& output,
                         std::int64_t bytes, Location where) {
  ++next_;
  const auto count = static_cast<std::size_t>(call.input_count);
  Held& mine = held(next_);
  mine.output = output;
  mine.input_count = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    mine.inputs[i] = *inputs[i];
  }
  mine.bytes = bytes;
  in_flight_bytes_ += bytes;

  output.body()->is_pending = true;
  Storage& storage = *output.body()->storage;
  storage.launch_queue = id_;
  storage.launch = next_;
  storage.failure = nullptr;

  Launch& launch = ring_[(next_ - 1) % kCapacity];
  launch.op = call.op;
  launch.where = where;
  launch.input_count = static_cast<std::uint32_t>(count);
  launch.has_attributes = call.op->attributes != nullptr;
  if (launch.has_attributes) {
    std::construct_at(&launch.attributes, call.op->attributes, call.attributes);
  }
  launch.linear = call.op->elementwise() && !call.op->own_walk && kernels::bind(call, launch.elementwise);
  if (!launch.linear) {
    for (std::size_t i = 0; i < count; ++i) {
      launch.kernel.inputs[i] = inputs[i]->body();
    }
    launch.kernel.output = output.body();
  }
  submitted_.store(next_, std::memory_order_release);
  // There is no barrier between the two, because it would cost more than everything else. This may therefore miss that
  // the worker has just gone to sleep; then the next launch, or a thread that waits, wakes it.
  if (worker_asleep_.load(std::memory_order_relaxed)) [[unlikely]] {
    wake_worker();
  }
}

void LaunchQueue::wake_worker() noexcept {
  const std::lock_guard lock(mutex_);
  work_.notify_one();
}

void LaunchQueue::make_room(std::int64_t bytes) {
  // Releases some more than needed, so that host and worker don't meet at every launch.
  const bool full = next_ - released_ == kCapacity;
  std::uint64_t until = full ? released_ + kReleaseBatch : released_;
  std::int64_t left = in_flight_bytes_;
  for (std::uint64_t number = released_ + 1; number <= next_; ++number) {
    const bool needed = number <= until || (left + bytes > kMostBytes && next_ - number + 1 >= kFewest);
    if (!needed) {
      break;
    }
    until = number;
    left -= held(number).bytes;
  }
  await(until);
  release_until(until);
}

void LaunchQueue::release_until(std::uint64_t number) noexcept {
  while (released_ != number) {
    Held& done = held(++released_);
    in_flight_bytes_ -= done.bytes;
    done.output = Tensor();
    for (std::uint32_t i = 0; i < done.input_count; ++i) {
      done.inputs[i] = Tensor();
    }
  }
}

void LaunchQueue::await(std::uint64_t number) noexcept {
  const auto is_done = [&] {
    known_done_ = done_.load(std::memory_order_acquire);
    return known_done_ >= number;
  };
  if (known_done_ >= number || is_done()) {
    return;
  }
  const trace::Zone zone(&kWait);
  ++waits_;
  submitted_.fetch_add(0);  // the barrier that submit() omits
  if (worker_asleep_.load()) {
    wake_worker();
  }
  if (host_patience_.spin_until(is_done)) {
    return;
  }
  std::unique_lock lock(mutex_);
  wake_host_at_.store(number);
  progress_.wait(lock, [&] { return done_.load() >= number; });
  wake_host_at_.store(UINT64_MAX);
  known_done_ = done_.load(std::memory_order_acquire);
}

void LaunchQueue::drain() noexcept {
  await(next_);
  release_until(next_);
}

void LaunchQueue::report(std::uint64_t number) {
  const Failure* first;
  {
    const std::lock_guard lock(mutex_);
    if (failed_first_.number == 0 || failed_first_.number > number) {
      return;
    }
    first = failed_first_.failure;
  }
  // Later launches would never have been called, so their failures aren't reported.
  drain();
  {
    const std::lock_guard lock(mutex_);
    failed_first_ = {};
    has_failed_.store(false);
  }
  throw_failure(*first, launch_blocking());
}

const Failure* LaunchQueue::unreported() {
  const std::lock_guard lock(mutex_);
  return failed_first_.failure;
}

void LaunchQueue::wait_from_outside(std::uint64_t number) {
  const auto is_done = [&] { return done_.load(std::memory_order_acquire) >= number; };
  while (!is_done()) {
    if (worker_asleep_.load()) {
      wake_worker();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void LaunchQueue::work() noexcept {
  pthread_setname_np(pthread_self(), "launch");
  thread_context.grad_enabled = false;
  std::uint64_t done = 0;
  for (;;) {
    const std::uint64_t submitted = next_work(done);
    if (submitted == done) {
      return;
    }
    while (done != submitted) {
      run(ring_[done % kCapacity], done + 1);
      worker_allocations_.store(allocator::stats().allocations, std::memory_order_relaxed);
      done_.store(++done);
      if (done >= wake_host_at_.load()) [[unlikely]] {
        const std::lock_guard lock(mutex_);
        progress_.notify_one();
      }
    }
  }
}

std::uint64_t LaunchQueue::next_work(std::uint64_t done) noexcept {
  const auto has_work = [&] { return submitted_.load() != done || stop_.load(); };
  if (!worker_patience_.spin_until(has_work)) {
    std::unique_lock lock(mutex_);
    worker_asleep_.store(true);
    work_.wait(lock, has_work);
    worker_asleep_.store(false);
  }
  return submitted_.load(std::memory_order_acquire);
}

void LaunchQueue::run(const Launch& launch, std::uint64_t number) noexcept {
  if (any_failure_) [[unlikely]] {
    if (const Failure* failure = failure_of_inputs(number)) {
      held(number).output.body()->storage->failure = failure;
      return;
    }
  }
  const void* attributes = launch.has_attributes ? launch.attributes.get() : nullptr;
  try {
    const trace::Zone zone(&launch.op->label);
    if (launch.linear) {
      launch.elementwise.run(static_cast<int>(launch.input_count) + 1, attributes);
      return;
    }
    Operand operands[kMaxInputs];
    for (std::uint32_t i = 0; i < launch.input_count; ++i) {
      const TensorBody& body = *launch.kernel.inputs[i];
      operands[i] = {body.data, &body.type, &body.strides, body.contiguous};
    }
    const TensorBody& output = *launch.kernel.output;
    launch.op->kernel({launch.op,
                       operands,
                       static_cast<int>(launch.input_count),
                       attributes,
                       {output.data, &output.type, &output.strides, true}});
  } catch (...) {
    fail(number, describe_current_exception(launch));
  }
}

const Failure* LaunchQueue::failure_of_inputs(std::uint64_t number) const {
  const Held& mine = held(number);
  for (std::uint32_t i = 0; i < mine.input_count; ++i) {
    const TensorBody& body = *mine.inputs[i].body();
    if (body.is_pending && body.storage->failure != nullptr) {
      return body.storage->failure;
    }
  }
  return nullptr;
}

void LaunchQueue::fail(std::uint64_t number, const Failure* failure) noexcept {
  held(number).output.body()->storage->failure = failure;
  any_failure_ = true;
  const std::lock_guard lock(mutex_);
  if (failed_first_.number == 0) {
    failed_first_ = {number, failure};
  }
  has_failed_.store(true, std::memory_order_release);
}

}  // namespace diptych::runtime
