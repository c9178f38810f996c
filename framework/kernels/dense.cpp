#include "framework/kernels/dense.h"

#include <cstring>

#include "framework/core/strided_copy.h"
#include "framework/kernels/bound_call.h"

namespace diptych::kernels {
namespace {

void convert(LoopFn loop, const Operand& from, const Operand& to) { bind_loop(loop, from, to).run(2, nullptr); }

struct Widen {
  DIPTYCH_INLINE static float apply(bfloat16 x) { return x; }
};
struct Narrow {
  DIPTYCH_INLINE static bfloat16 apply(float x) { return bfloat16(x); }
};

}  // namespace

void strided_copy(const Operand& operand, void* destination, const Strides& strides) {
  strided_copy(operand.type->shape, size_of(operand.type->dtype), operand.data, *operand.strides, destination, strides);
}

void copy_dense(const Operand& operand, void* destination) {
  if (operand.contiguous) {
    if (const std::size_t bytes = bytes_of(*operand.type); bytes > 0) {
      std::memcpy(destination, operand.data, bytes);
    }
    return;
  }
  strided_copy(operand, destination, contiguous_strides(operand.type->shape));
}

void through_float(const KernelCall& call, Kernel kernel) {
  bool narrow = call.output.type->dtype == DType::bfloat16;
  for (int i = 0; i < call.input_count; ++i) {
    narrow = narrow || call.inputs[i].type->dtype == DType::bfloat16;
  }
  if (!narrow) {
    kernel(call);
    return;
  }
  static const LoopSet widen = loop_set<Widen, void, bfloat16>();
  static const LoopSet round = loop_set<Narrow, void, float>();
  const auto isa = static_cast<std::size_t>(active_isa());
  Operand operands[kMaxInputs];
  TensorType types[kMaxInputs + 1];
  Strides strides[kMaxInputs];
  StorageRef copies[kMaxInputs + 1];
  for (int i = 0; i < call.input_count; ++i) {
    operands[i] = call.inputs[i];
    if (operands[i].type->dtype == DType::bfloat16) {
      types[i] = {DType::float32, operands[i].type->shape};
      strides[i] = contiguous_strides(types[i].shape);
      copies[i] = allocate_storage(bytes_of(types[i]));
      operands[i] = {copies[i]->data(), &types[i], &strides[i], true};
      convert(widen[isa], call.inputs[i], operands[i]);
    }
  }
  KernelCall wide = call;
  wide.inputs = operands;
  if (call.output.type->dtype == DType::bfloat16) {
    TensorType& type = types[kMaxInputs];
    type = {DType::float32, call.output.type->shape};
    copies[kMaxInputs] = allocate_storage(bytes_of(type));
    wide.output = {copies[kMaxInputs]->data(), &type, call.output.strides, true};
    wide.epilogue = nullptr;  // it would read what isn't rounded yet
  }
  kernel(wide);
  if (call.output.type->dtype == DType::bfloat16) {
    convert(round[isa], wide.output, call.output);
  }
}

Dense::Dense(const Operand& operand) : data_(operand.data) {
  if (operand.contiguous) {
    return;
  }
  copy_ = allocate_storage(bytes_of(*operand.type));
  copy_dense(operand, copy_->data());
  data_ = copy_->data();
}

}  // namespace diptych::kernels
