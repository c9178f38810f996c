#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "framework/core/allocator.h"
#include "framework/core/error.h"
#include "framework/core/reference.h"

namespace diptych {

namespace runtime {
struct Failure;
}

/// The bytes of one or more tensors. The header is in the same block as the data, so a fresh tensor costs one
/// allocation here. Not a public type.
struct alignas(allocator::kAlignment) Storage {
  ReferenceCount references;
  std::uint32_t size_class;
  std::uint32_t version = 0;  ///< incremented by each update in place
  bool viewed = false;        ///< some tensor is or was a view of it
  std::size_t bytes;
  Location written;  ///< of the last update in place
  /// A number for its elements that graphs remember which have packed them; 0 once they change. Graphs of several
  /// threads may read the same elements.
  std::atomic<std::uint32_t> packing{0};
  // Set only if a launch queue writes the elements (TensorBody::is_pending): the launch, and the reason if it failed to
  // write them.
  std::uint32_t launch_queue;
  std::uint64_t launch;
  const runtime::Failure* failure;

  void* data() noexcept { return this + 1; }
};

static_assert(sizeof(Storage) == allocator::kAlignment);  // or each tensor takes a cache line more

using StorageRef = Reference<Storage>;

inline StorageRef allocate_storage(std::size_t bytes) {
  const allocator::Block block = allocator::allocate(sizeof(Storage) + bytes);
  auto* storage = ::new (block.data) Storage;
  storage->size_class = block.size_class;
  storage->bytes = bytes;
  return StorageRef::adopt(storage);
}

inline void destroy(Storage* storage) noexcept { allocator::release({storage, storage->size_class}); }

}  // namespace diptych
