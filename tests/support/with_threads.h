#pragma once

#include "framework/core/parallel.h"

namespace diptych::testing {

/// Computes on `count` threads as long as it lives; `divides_all`: whatever can be divided, however little work it is.
class WithThreads {
 public:
  explicit WithThreads(int count, bool divides_all = false) : threads_(count) {
    set_least_nanoseconds_of_part(divides_all ? 0 : kLeastNanosecondsOfPart);
  }
  ~WithThreads() { set_least_nanoseconds_of_part(kLeastNanosecondsOfPart); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  UseThreads threads_;
};

}  // namespace diptych::testing
