#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace diptych::autograd {

struct TapeNode;

/// Node -> index of its visit: open addressing, because this runs once per node of every backward pass.
class VisitMap {
 public:
  VisitMap() : slots_(64, {nullptr, 0}) {}

  /// The index of `node`, and whether it is new (then it gets `next`).
  std::pair<std::uint32_t, bool> insert(const TapeNode* node, std::uint32_t next) {
    if (2 * count_ >= slots_.size()) {
      grow();
    }
    Slot& slot = find(node);
    if (slot.node != nullptr) {
      return {slot.index, false};
    }
    slot = {node, next};
    ++count_;
    return {next, true};
  }
  /// The index of `node`, or -1.
  std::int64_t lookup(const TapeNode* node) {
    const Slot& slot = find(node);
    return slot.node != nullptr ? static_cast<std::int64_t>(slot.index) : -1;
  }
  void set(const TapeNode* node, std::uint32_t index) { find(node).index = index; }

 private:
  struct Slot {
    const TapeNode* node;
    std::uint32_t index;
  };
  Slot& find(const TapeNode* node) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (std::bit_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15ULL) >> 40U;
    while (slots_[at & mask].node != nullptr && slots_[at & mask].node != node) {
      ++at;
    }
    return slots_[at & mask];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 4, {nullptr, 0});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.node != nullptr) {
        find(slot.node) = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace diptych::autograd
