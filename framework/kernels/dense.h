#pragma once

#include "framework/core/storage.h"
#include "framework/dispatch/call.h"

namespace diptych::kernels {

/// Writes the elements of `operand`, whatever its strides, to where `strides` put them from `destination` on.
void strided_copy(const Operand& operand, void* destination, const Strides& strides);

/// Writes the elements of `operand` densely, in row-major order.
void copy_dense(const Operand& operand, void* destination);

/// Runs a kernel with bfloat16 operands as `kernel` on float32: inputs are widened, the output is rounded. Calls
/// without bfloat16 are passed on unchanged.
void through_float(const KernelCall& call, Kernel kernel);
template <Kernel kernel>
void through_float(const KernelCall& call) {
  through_float(call, kernel);
}

/// The elements of an operand, dense and row-major: its own memory, or a temporary copy.
class Dense {
 public:
  Dense() = default;  ///< of nothing: null
  explicit Dense(const Operand& operand);
  const void* data() const { return data_; }

 private:
  const void* data_ = nullptr;
  StorageRef copy_;
};

}  // namespace diptych::kernels
