#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace diptych {

/// An intrusive reference count. The last owner needs no read-modify-write: when the count is 1, nobody else can
/// increment it.
class ReferenceCount {
 public:
  void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// True when the caller was the last owner.
  bool release() noexcept {
    if (count_.load(std::memory_order_acquire) == 1) {
      return true;
    }
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

 private:
  std::atomic<std::uint32_t> count_{1};
};

/// Owns one reference to a T whose first member is `ReferenceCount references` and which has a free function
/// `destroy(T*)`. T may be incomplete here, which keeps the public headers small and the counting inline.
template <class T>
class Reference {
 public:
  constexpr Reference() noexcept = default;
  /// Takes over a reference that the caller holds (a new object starts with one).
  static Reference adopt(T* object) noexcept {
    Reference reference;
    reference.object_ = object;
    return reference;
  }
  static Reference share(T* object) noexcept {
    if (object != nullptr) {
      count(object).retain();
    }
    return adopt(object);
  }
  Reference(const Reference& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) {
      count(object_).retain();
    }
  }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(const Reference& other) noexcept {
    Reference(other).swap(*this);
    return *this;
  }
  Reference& operator=(Reference&& other) noexcept {
    Reference(std::move(other)).swap(*this);
    return *this;
  }
  ~Reference() {
    if (object_ != nullptr && count(object_).release()) {
      destroy(object_);
    }
  }

  void swap(Reference& other) noexcept { std::swap(object_, other.object_); }
  /// Gives the reference up to the caller.
  T* detach() noexcept { return std::exchange(object_, nullptr); }
  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const Reference& a, const Reference& b) noexcept { return a.object_ == b.object_; }

 private:
  static ReferenceCount& count(T* object) noexcept { return *reinterpret_cast<ReferenceCount*>(object); }

  T* object_ = nullptr;
};

}  // namespace diptych
