#pragma once

#include <random>
#include <vector>

#include "tests/runtime/program.h"

/// Programs that are drawn: ops of the whole registry with attributes, shapes and layouts found by trial (what type
/// inference refuses is drawn again), states, updates in place, branches, loops, and gradients of all that. Most have
/// tensors of a few elements; one in five is of layers of networks, on tensors of several tiles.
namespace diptych::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

Program random_program(Random& random);

}  // namespace diptych::testing
