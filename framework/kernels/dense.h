#pragma once

#include "framework/core/storage.h"
#include "framework/ops/op.h"

namespace diptych::kernels {

/// The elements of an operand densely in row-major order: its own, or a temporary copy.
class Dense {
 public:
  explicit Dense(const Operand& operand);
  const void* data() const { return data_; }

 private:
  const void* data_;
  StorageRef copy_;
};

}  // namespace diptych::kernels
