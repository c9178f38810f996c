#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/core/tensor.h"
#include "framework/core/trace_points.h"
#include "framework/dispatch/call.h"

namespace diptych {

struct OpDef;

/// Shape and dtype inference. Works on types alone, so eager and capture share it.
struct InferCall {
  const OpDef& op;
  std::span<const TensorType* const> inputs;
  const void* attributes;
  Location where;

  const TensorType& input(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  const Shape& shape(int i) const { return input(i).shape; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
  /// Throws an error with the op's name, all input types and the line: "matmul: <what>: f32[2,3] x f32[4,5], at
  /// model.cpp:12; <hint>".
  [[noreturn]] void fail_shape(std::string_view what, std::string_view hint) const;
  [[noreturn]] void fail_dtype(std::string_view what, std::string_view hint) const;
};
using Infer = void (*)(const InferCall& call, TensorType& output);

/// The location of a view's elements in its input's storage.
struct Layout {
  Strides strides;
  std::int64_t offset = 0;  ///< in elements
};
/// False if the result can't be a view of this layout (then the kernel copies).
using View = bool (*)(const TensorType& input, const Strides& strides, const TensorType& output, const void* attributes,
                      Layout& layout);

/// For updates in place through a view, inside a captured function: `base` with the part that the view shows replaced
/// by `value`.
using WriteBack = Tensor (*)(const Tensor& base, const Tensor& value, const void* attributes);

/// What a gradient rule may access: only what the op's `Saves` declares is there.
struct VjpCall {
  const OpDef& op;
  const Tensor& cotangent;
  const Tensor* inputs;
  const Tensor& output;
  const TensorType* input_types;
  int input_count;
  const void* attributes;
  std::uint32_t needed;  ///< bit i: the gradient of input i is wanted

  const Tensor& input(int i) const { return inputs[i]; }
  const TensorType& input_type(int i) const { return input_types[i]; }
  bool needs(int i) const { return ((needed >> i) & 1U) != 0; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
};
/// What a forward-mode rule may access: everything.
struct JvpCall {
  const OpDef& op;
  const Tensor* inputs;
  const Tensor& output;
  const Tensor* tangents;  ///< one per input; undefined: zero
  int input_count;
  const void* attributes;

  const Tensor& input(int i) const { return inputs[i]; }
  const Tensor& tangent(int i) const { return tangents[i]; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
};
/// The tangent of the output, written with public ops only; undefined: zero. It may have a broadcast shape.
using Jvp = Tensor (*)(const JvpCall& call);

using Gradients = std::array<Tensor, kMaxInputs>;
/// Written with public ops only. A gradient may have a broadcast shape: the engine sums it to the input's.
using Vjp = Gradients (*)(const VjpCall& call);

/// What a gradient rule reads; everything else is freed early.
struct Saves {
  std::uint32_t inputs = 0;  ///< bit mask
  bool output = false;
};

/// Analytic cost of one call: floating-point operations and compulsory bytes.
struct Cost {
  double flops = 0;
  double bytes = 0;
};
/// How tensors fall into rows, equal parts of their elements.
struct RowLayout {
  std::int64_t count = 0;  ///< 0: they don't
  /// Of channels: row i is what has index i along axis 1 of [batch, count, ...], with so many elements a plane.
  /// Otherwise 0: rows follow one another in row-major order, each of them one element or the whole last axis.
  std::int64_t batch = 0;
  std::int64_t plane = 0;

  bool by_channel() const { return batch > 0; }
  friend bool operator==(const RowLayout&, const RowLayout&) = default;
};
/// How a call falls into rows that need nothing of one another: row i of the result comes from row i of some inputs and
/// from others as a whole.
struct Rows {
  RowLayout layout;
  std::uint32_t inputs = 0;    ///< bit i: input i has these rows; the others are needed whole
  std::int64_t together = 1;   ///< how many the kernel wants at once: with fewer each takes longer
  bool writes_planes = false;  ///< of channels: the kernel can leave its result's planes, dense each, apart
};
/// The kernel must give the same bits for some of the rows, in a tensor of the same rank of their own.
using RowsFn = Rows (*)(const InferCall& call, const TensorType& output);
using CostFn = double (*)(const InferCall& call, const TensorType& output);

/// Inputs that a graph prepares once for many calls, as long as their elements stay the same.
struct Packing {
  std::uint32_t inputs;  ///< bit mask; of those that a call doesn't have, none
  /// The bytes of the prepared form; 0: preparing it doesn't pay for this call.
  std::size_t (*size)(const KernelCall& call);
  /// `to` is aligned to a cache line.
  void (*pack)(const KernelCall& call, void* to);
};

/// An example input; tests draw the elements from [low, high) (integers: whole numbers in it; bool: both).
struct SampleInput {
  TensorType type;
  double low = -2;
  double high = 2;
  bool transposed = false;  ///< the last two axes are a strided view
};
struct Sample {
  std::vector<SampleInput> inputs;
  AttributeValue attributes;
};
using Samples = std::vector<Sample> (*)();

/// The kind of an op, for passes, planners and pictures. Set by the builder of the kind (ops/define.h).
enum class OpKind : std::uint8_t {
  opaque,       ///< none of the others: only its kernel knows
  elementwise,  ///< a scalar function of corresponding elements of the inputs, broadcast; it has loops
  reduction,    ///< reduces axes of one input
  row,          ///< processes each row of the last axis, or each channel, by itself: softmax, normalisation
  view,         ///< the input's elements with other strides, where such strides exist; it has `view`
  contraction,  ///< sums of products: matmul, convolution
  window,       ///< pooling
  random,       ///< draws from a state
  control,      ///< regions (graph/control_ops.h)
  fused         ///< a region of elementwise ops (graph/fused_op.h)
};

/// Everything that Diptych knows about an op, in one place. Eager, capture, autodiff, the passes, the documentation
/// page and the test matrices all read it.
struct OpDef {
  const char* name;
  const char* doc;
  int inputs;             ///< the maximum, if `least_inputs` is given
  int least_inputs = -1;  ///< for ops with optional or variadic inputs
  OpKind kind = OpKind::opaque;
  const AttributeType* attributes = nullptr;
  Infer infer;
  View view = nullptr;
  WriteBack write_back = nullptr;  ///< for views: the base with the view's elements
  Kernel kernel;
  const Packing* packing = nullptr;  ///< KernelCall::packed
  bool stores = false;               ///< it only moves elements, or converts them: types for storage are welcome
  int epilogue_axes = 0;             ///< KernelCall::epilogue; 0: the kernel calls none
  bool own_walk = false;  ///< elementwise ops: the kernel, not the common plan, handles operands that one loop can't
  /// Elementwise ops: the loops by the dtype of input `loop_input` (of the output if there is no input).
  std::array<LoopSet, kDTypeCount> loops{};
  int loop_input = 0;
  /// For the rare elementwise op whose loop depends on more than one dtype.
  LoopSet (*select_loop)(std::span<const TensorType* const> inputs, const TensorType& output) = nullptr;
  RowsFn rows = nullptr;  ///< ops that reduce or process rows: rows_of(), for fusion; null: never
  /// Bit i: the kernel reads each element of input i before it writes that of the result, or in the same step, so that
  /// the result may lie in its place. Elementwise ops need not say so.
  std::uint32_t overwrites = 0;
  Vjp vjp = nullptr;
  Saves saves{};
  /// Forward mode. Null: the tangent follows from `linear` or, for elementwise ops, from `vjp` (their Jacobians are
  /// diagonal).
  Jvp jvp = nullptr;
  /// Bit i: with the other inputs fixed, the op is linear in input i, so its tangent is the op of the tangent.
  std::uint32_t linear = 0;
  bool can_fail = false;   ///< the kernel may throw, depending on elements
  bool effect = false;     ///< does something besides computing, so it is never dropped, merged, folded or moved
  CostFn flops = nullptr;  ///< null: none (the op only moves data)
  Samples samples;
  /// For grouping in documents and colours in diagrams: "reduction", "matmul", ...; null: derived from the kind of op.
  const char* family = nullptr;
  trace::Label label{name, trace::Category::op};

  std::string_view family_name() const {
    return family != nullptr             ? family
           : kind == OpKind::elementwise ? "elementwise"
           : kind == OpKind::view        ? "shape"
                                         : "other";
  }
  bool takes(std::size_t count) const {
    const int n = static_cast<int>(count);
    return n == inputs || (least_inputs >= 0 && n >= least_inputs && n < inputs);
  }
  /// "2", "2 to 8"
  std::string arity() const;
  bool elementwise() const { return kind == OpKind::elementwise; }
  /// `infer`, for every type that a call may have: refuses to compute on types for storage.
  void infer_type(const InferCall& call, TensorType& output) const {
    infer(call, output);
    bool is_stored = is_storage(output.dtype);
    for (const TensorType* input : call.inputs) {
      is_stored |= is_storage(input->dtype);
    }
    if (is_stored && !stores) [[unlikely]] {
      refuse_storage(call);
    }
  }
  Rows rows_of(std::span<const TensorType* const> input_types, const void* of_attributes,
               const TensorType& output) const {
    return rows != nullptr ? rows({*this, input_types, of_attributes, {}}, output) : Rows{};
  }
  LoopFn loop(std::span<const TensorType* const> input_types, const TensorType& output) const {
    const auto isa = static_cast<std::size_t>(active_isa());
    if (select_loop != nullptr) {
      return select_loop(input_types, output)[isa];
    }
    const DType dtype = input_types.empty() ? output.dtype : input_types[static_cast<std::size_t>(loop_input)]->dtype;
    return loops[static_cast<std::size_t>(dtype)][isa];
  }

 private:
  [[noreturn]] static void refuse_storage(const InferCall& call);
};

/// All ops without effects, sorted by name. Ops with effects (debug.h) are only found by name, and control flow
/// (graph/control_ops.h) is not an op: tests, fuzzers and pages that iterate over the registry need not handle them.
std::span<const OpDef* const> registry();
/// Null if there is no such op.
const OpDef* find_op(std::string_view name);

/// Registers an op; a static object in the op's file.
class Op {
 public:
  explicit Op(const OpDef& definition);
  constexpr const OpDef& operator*() const { return definition_; }
  const OpDef* operator->() const { return &definition_; }

 private:
  mutable OpDef definition_;  ///< WithoutKernels writes to it
};

/// While an instance lives, ops do everything except compute: they take the usual path, but each kernel and loop does
/// nothing, and outputs contain whatever was in their memory. The cost outside of kernels can thus be timed separately.
/// Graphs compiled in the meantime keep the empty loops. Not to be used while ops run on other threads.
class WithoutKernels {
 public:
  WithoutKernels();
  ~WithoutKernels();
  WithoutKernels(const WithoutKernels&) = delete;
  WithoutKernels& operator=(const WithoutKernels&) = delete;
};

Cost cost_of(const OpDef& op, std::span<const TensorType* const> inputs, const void* attributes,
             const TensorType& output);

}  // namespace diptych
