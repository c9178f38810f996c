#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/core/storage.h"

namespace diptych::kernels {

/// An uninitialised workspace.
template <class T>
class Workspace {
 public:
  explicit Workspace(std::int64_t size) : storage_(allocate_storage(static_cast<std::size_t>(size) * sizeof(T))) {}
  T* data() const { return static_cast<T*>(storage_->data()); }

 private:
  StorageRef storage_;
};

}  // namespace diptych::kernels
