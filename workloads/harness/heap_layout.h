#pragma once

#include <cstddef>
#include <vector>

#include "framework/core/rng.h"

/// Where things lie on the heap. It moves the time of small eager programs by several per cent (docs/measurement.md),
/// stays the same over the life of a process and from process to process, and changes with things that have nothing to
/// do with the code that is measured. So it is drawn, again and again: a difference then isn't that of two layouts.
namespace diptych::workloads {

class HeapLayout {
 public:
  explicit HeapLayout(std::uint64_t seed) : random_(seed) {}
  ~HeapLayout() { release(blocks_); }
  HeapLayout(const HeapLayout&) = delete;
  HeapLayout& operator=(const HeapLayout&) = delete;

  /// What is allocated from now on lies elsewhere: the blocks that the engine keeps for reuse go back to the system,
  /// and blocks of random sizes stand in the way, some of which are free again.
  void change();

 private:
  static void release(std::vector<void*>& blocks) noexcept;

  Rng random_;
  std::vector<void*> blocks_;
};

}  // namespace diptych::workloads
