#pragma once

#include "framework/core/launches.h"
#include "framework/core/storage.h"
#include "framework/core/tensor.h"

namespace diptych {

namespace autograd {
struct TapeNode;
/// The first members of a TapeNode, which belongs to dispatch (dispatch/tape.h).
struct TapeHead {
  ReferenceCount references;
  void (*destroy)(TapeNode* node) noexcept = nullptr;
};
inline void destroy(TapeNode* node) noexcept { reinterpret_cast<TapeHead*>(node)->destroy(node); }
}  // namespace autograd

/// What a Tensor points to. Invariants, as formulas:
///   traced()      = storage is null and data is null and numel may be anything
///   contiguous    = is_contiguous(type.shape, strides)
///   requires_grad = tape is set
///   is_pending    = a launch queue writes, or wrote, the elements: make_ready() before the host reads them
struct TensorBody {
  ReferenceCount references;
  std::uint32_t tape_output = 0;  ///< which output of `tape` this is
  bool contiguous = true;
  bool is_traced = false;
  bool is_pending = false;
  std::uint32_t trace_value = 0;   ///< the value id in the graph under capture
  std::uint64_t trace_serial = 0;  ///< which capture it belongs to
  void* data = nullptr;
  std::int64_t numel = 0;
  StorageRef storage;
  Reference<autograd::TapeNode> tape;
  TensorType type;
  Strides strides;

  std::byte* bytes() const { return static_cast<std::byte*>(data); }
};

/// A body with no type, data or tape, from the thread's cache.
TensorBody* new_body();

/// Sets contiguous strides, numel and fresh storage for `body->type`.
void allocate_dense(TensorBody* body);

/// The same elements (or the same traced value), without the tape.
Tensor detached_alias(const Tensor& tensor);

/// Must precede every read of elements on the host.
inline void make_ready(const TensorBody& body) {
  if (body.is_pending) [[unlikely]] {
    launches::hooks.load(std::memory_order_acquire)->wait_for(body);
  }
}

/// Throws CaptureError with the op, the line and ways to fix it.
[[noreturn]] void fail_traced_read(const TensorBody& body, const char* what, Location where);

/// A dense tensor with the same elements, which must be readable. Neither recorded on the tape nor an op.
Tensor dense_copy(const Tensor& tensor);

/// The storage offset of element `index` (row-major), whatever the strides.
std::int64_t element_offset(const TensorBody& body, std::int64_t index);

}  // namespace diptych
