#pragma once

#include <array>
#include <cstdint>

#include "framework/core/isa.h"
#include "framework/core/tensor.h"

/// How an op calls its kernel.
namespace diptych {

struct OpDef;

inline constexpr int kMaxInputs = 8;
inline constexpr int kMaxElementwiseInputs = 4;

struct Operand {
  void* data;
  const TensorType* type;
  const Strides* strides;
  bool contiguous;
};

/// The inner loop of an elementwise op over `n` elements: `data` and `strides` (bytes) of the inputs, then the output.
using LoopFn = void (*)(std::int64_t n, void* const* data, const std::int64_t* strides, const void* attributes);
using LoopSet = std::array<LoopFn, kIsaCount>;

struct KernelCall {
  const OpDef* op;
  const Operand* inputs;
  int input_count;
  const void* attributes;
  Operand output;
  const void* packed = nullptr;  ///< what OpDef::packing has made of an input ahead, or null
};
/// Writes every element of `call.output`, which is dense and may share memory with an input only if the op is
/// elementwise and the two have the same type and layout.
using Kernel = void (*)(const KernelCall& call);

}  // namespace diptych
