#pragma once

#include <cstdint>

/// Threads that share the work of one kernel. There is one pool, and a kernel at a time uses it: kernels that other
/// threads run meanwhile, and those inside a part, compute alone. How work is divided never changes a result, because a
/// part computes whole elements.
namespace diptych {

namespace detail {
int initial_thread_count();
inline int active_thread_count = initial_thread_count();
/// Work of less isn't divided; infinite for one thread.
double initial_least_divided();
inline double least_divided = initial_least_divided();
/// The same in elements of an elementwise op.
std::int64_t initial_least_divided_elements();
inline std::int64_t least_divided_elements = initial_least_divided_elements();

using RunPart = void (*)(const void* body, std::int64_t first, std::int64_t last);
void run_in_parts(std::int64_t count, double nanoseconds, const void* body, RunPart run);
}  // namespace detail

/// More is refused.
inline constexpr int kMostThreads = 256;

/// The threads that compute, the calling one included: 1, or the number in the environment variable DIPTYCH_THREADS.
inline int thread_count() { return detail::active_thread_count; }

/// Throws Error if DIPTYCH_THREADS is set to anything but a number from 1 to kMostThreads; then one thread computes.
void expect_possible_thread_count();

/// Throws Error unless 1 <= count <= kMostThreads, and if the threads can't be started; then nothing has changed. More
/// threads than CPUs are slow, not wrong. Must not be called while ops run on other threads.
void set_thread_count(int count);

/// As long as it lives, `count` threads compute; afterwards as many as before, or still `count` if those can't be
/// started.
class UseThreads {
 public:
  explicit UseThreads(int count) { set_thread_count(count); }
  ~UseThreads();
  UseThreads(const UseThreads&) = delete;
  UseThreads& operator=(const UseThreads&) = delete;

 private:
  int before_ = thread_count();
};

/// A part of the work takes this long at least, because handing it to another thread takes about a microsecond.
inline constexpr double kLeastNanosecondsOfPart = 10'000;
/// For tests: 0 makes parts of whatever can be divided.
void set_least_nanoseconds_of_part(double nanoseconds);

/// Whether parallel_for() may use other threads.
inline bool is_worth_dividing(std::int64_t count, double nanoseconds) {
  return static_cast<double>(count) * nanoseconds >= detail::least_divided;
}

/// Of an elementwise op. Cheap functions take less; they wait for memory.
inline constexpr double kNanosecondsOfScalar = 0.25;

/// Whether all threads get as many of `items`, or nearly so: else each item is to be divided.
inline bool are_enough(std::int64_t items) {
  return items % thread_count() == 0 || items >= std::int64_t{4} * thread_count();
}

/// Calls body(first, last) for parts of [0, count) that cover it, on several threads if that pays; `nanoseconds`: how
/// long one item takes on one thread, roughly. Returns when all is done. If the body throws, parts that haven't begun
/// are left out, and the first exception is thrown here.
template <class Body>
void parallel_for(std::int64_t count, double nanoseconds, const Body& body) {
  if (!is_worth_dividing(count, nanoseconds)) [[likely]] {
    body(std::int64_t{0}, count);
    return;
  }
  detail::run_in_parts(count, nanoseconds, &body, [](const void* of, std::int64_t first, std::int64_t last) {
    (*static_cast<const Body*>(of))(first, last);
  });
}

}  // namespace diptych
