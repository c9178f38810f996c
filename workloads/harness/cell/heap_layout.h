#pragma once

#include <cstddef>
#include <vector>

#include "framework/core/rng.h"

/// The layout of the heap. It changes the time of small eager programs by several per cent (docs/measurement.md), stays
/// the same over the life of a process and from process to process, and depends on things unrelated to the measured
/// code. It is therefore drawn at random, again and again, so that a difference isn't one between two layouts.
namespace diptych::workloads {

class HeapLayout {
 public:
  explicit HeapLayout(std::uint64_t seed) : random_(seed) {}
  ~HeapLayout() { release(blocks_); }
  HeapLayout(const HeapLayout&) = delete;
  HeapLayout& operator=(const HeapLayout&) = delete;

  /// Moves later allocations elsewhere: the blocks that the engine keeps for reuse go back to the system, and blocks of
  /// random sizes, some of them freed again, take up room.
  void change();

 private:
  static void release(std::vector<void*>& blocks) noexcept;

  Rng random_;
  std::vector<void*> blocks_;
};

}  // namespace diptych::workloads
