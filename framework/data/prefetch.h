#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "framework/data/dataset.h"

namespace diptych::data {

/// Makes batches on a separate thread while the program computes. They are the same batches in the same order, to the
/// bit, as without it. An exception of the maker is rethrown by next() in place of its batch; nothing follows it.
///
///   Prefetch batches([all = Batches(train, 64, 9)](std::int64_t step) mutable { return all[step]; });
///   for (std::int64_t i = 0; i < steps; ++i) { const Dataset batch = batches.next(); ... }
class Prefetch {
 public:
  /// Called on the other thread, with first_step, first_step + 1, ...; must own what it uses.
  using Make = std::function<Dataset(std::int64_t step)>;

  /// At most `depth` finished batches are kept waiting. Throws Error for a depth below 1.
  explicit Prefetch(Make make, std::size_t depth = 2, std::int64_t first_step = 0);
  /// Waits for the batch being made, and drops it with the others.
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  Dataset next();

 private:
  void work(std::int64_t step);

  Make make_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Dataset> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;  ///< last, because it uses all of the above
};

}  // namespace diptych::data
