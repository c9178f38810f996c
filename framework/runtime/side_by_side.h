#pragma once

#include <cstdint>
#include <vector>

#include "framework/runtime/lowering.h"

namespace diptych::runtime {

/// Successive instructions that several threads share: those of a strand depend on one another and run in order, on one
/// thread; those of different strands don't.
///
///   a = tanh(x)   b = a * w   c = exp(y)   d = c + v      before: a b c d, each divided by itself if it is large
///   [ a  b ]  beside  [ c  d ]                            a window of two strands
///
struct Window {
  std::uint32_t first = 0, end = 0;
  std::vector<std::vector<std::uint32_t>> strands;  ///< strands that a thread would run one after the other are one
  double nanoseconds = 0;                           ///< of all on one thread, roughly
};

/// The windows that are faster than one instruction after the other on `threads` threads, by a model of their time;
/// disjoint and in order. What may throw, has an effect or regions is in none. All temporaries of a window are alive at
/// the same time.
std::vector<Window> find_windows(const Lowered& lowered, int threads);

}  // namespace diptych::runtime
