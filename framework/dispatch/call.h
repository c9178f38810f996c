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

/// What is done to a kernel's results while they are in the cache. The output is seen as a matrix, whose columns are
/// its last axes, OpDef::epilogue_axes of them: the kernel calls it once for each part, after the last write to it,
/// perhaps on several threads at once.
struct Epilogue {
  void (*run)(const void* self, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns);
  const void* self;

  void operator()(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    run(self, row, rows, column, columns);
  }
};

struct KernelCall {
  const OpDef* op;
  const Operand* inputs;
  int input_count;
  const void* attributes;
  Operand output;
  const void* packed = nullptr;        ///< what OpDef::packing has made of inputs ahead, or null
  const Epilogue* epilogue = nullptr;  ///< for ops with OpDef::epilogue_axes, and results of f32 or f64
};
/// Writes every element of `call.output`, which is dense (but see Rows::writes_planes) and may share memory with an
/// input only if the op is elementwise and the two have the same type and layout.
using Kernel = void (*)(const KernelCall& call);

}  // namespace diptych
