#include "tests/fuzz/refusal.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "framework/core/allocator.h"

namespace diptych::testing {
namespace {

std::atomic<std::int64_t> asked{0};
std::atomic<std::int64_t> refused_at{0};  // 0: nothing is refused
std::atomic<std::int64_t> live{0};
/// The engine's allocator gives its cache back and asks again: that is refused, too.
thread_local bool again = false;

bool is_refused() {
  const std::int64_t at = refused_at.load(std::memory_order_relaxed);
  return at != 0 && asked.fetch_add(1, std::memory_order_relaxed) + 1 == at;
}

void* block(std::size_t bytes, std::size_t alignment) {
  void* data = nullptr;
  if (is_refused() || posix_memalign(&data, alignment, bytes) != 0) {
    throw std::bad_alloc();
  }
  live.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void give_back(void* data) noexcept {
  if (data != nullptr) {
    live.fetch_sub(1, std::memory_order_relaxed);
    std::free(data);
  }
}

}  // namespace

Refusal::Refusal(std::int64_t nth) : nth_(nth) {
  asked = 0;
  refused_at = nth;
}
Refusal::~Refusal() { refused_at = 0; }
std::int64_t Refusal::allocations() const { return asked; }

std::int64_t live_blocks() { return live; }

}  // namespace diptych::testing

void* operator new(std::size_t bytes) { return diptych::testing::block(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return diptych::testing::block(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return diptych::testing::block(bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* data, const std::nothrow_t& /*tag*/) noexcept { diptych::testing::give_back(data); }
void operator delete(void* data) noexcept { diptych::testing::give_back(data); }
void operator delete(void* data, std::size_t /*bytes*/) noexcept { diptych::testing::give_back(data); }
void operator delete(void* data, std::align_val_t /*alignment*/) noexcept { diptych::testing::give_back(data); }
void operator delete(void* data, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  diptych::testing::give_back(data);
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (diptych::testing::again || diptych::testing::is_refused()) {
    diptych::testing::again = !diptych::testing::again;
    return nullptr;
  }
  void* data = nullptr;
  return posix_memalign(&data, alignment, bytes) == 0 ? data : nullptr;
}
