#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace diptych::kernels {

/// Memory of a kernel, aligned to cache lines, that a thread keeps for its next call.
class Scratch {
 public:
  /// Valid until the next call.
  template <class T>
  T* elements(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(static_cast<std::byte*>(::operator new(bytes, kLine)));
      size_ = bytes;
    }
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };

  std::unique_ptr<std::byte, Delete> data_;
  std::size_t size_ = 0;
};

}  // namespace diptych::kernels
