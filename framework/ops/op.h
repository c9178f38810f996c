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
#include "framework/kernels/isa.h"

namespace diptych {

struct OpDef;

inline constexpr int kMaxInputs = 8;
inline constexpr int kMaxElementwiseInputs = 4;

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
  /// Throws with the op's name, all input types and the line: "matmul: <what>: f32[2,3] x f32[4,5], at model.cpp:12;
  /// <hint>".
  [[noreturn]] void fail_shape(std::string_view what, std::string_view hint) const;
  [[noreturn]] void fail_dtype(std::string_view what, std::string_view hint) const;
};
using Infer = void (*)(const InferCall& call, TensorType& output);

/// Where the elements of a view lie in its input's storage.
struct Layout {
  Strides strides;
  std::int64_t offset = 0;  ///< elements
};
/// False where the result can't be a view of this layout (then the kernel copies).
using View = bool (*)(const TensorType& input, const Strides& strides, const TensorType& output, const void* attributes,
                      Layout& layout);

/// For updates in place through a view, inside a captured function: `base` with `value` where the view showed it.
using WriteBack = Tensor (*)(const Tensor& base, const Tensor& value, const void* attributes);

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
};
/// Writes every element of `call.output`, which is dense and may share memory with an input only if the op is
/// elementwise and the two have the same type and layout.
using Kernel = void (*)(const KernelCall& call);

/// What a gradient rule may see: only what the op's `Saves` declares is there.
struct VjpCall {
  const OpDef& op;
  const Tensor& cotangent;
  const Tensor* inputs;
  const Tensor& output;
  const TensorType* input_types;
  int input_count;
  const void* attributes;
  std::uint32_t needed;  ///< bit i: the gradient of input i is asked for

  const Tensor& input(int i) const { return inputs[i]; }
  const TensorType& input_type(int i) const { return input_types[i]; }
  bool needs(int i) const { return ((needed >> i) & 1U) != 0; }
  template <class A>
  const A& as() const {
    return *static_cast<const A*>(attributes);
  }
};
/// What a forward-mode rule may see: everything.
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

/// What a gradient rule reads; the rest is freed early.
struct Saves {
  std::uint32_t inputs = 0;  ///< bit mask
  bool output = false;
};

/// Analytic cost of one call: floating-point operations and compulsory bytes.
struct Cost {
  double flops = 0;
  double bytes = 0;
};
using CostFn = double (*)(const InferCall& call, const TensorType& output);

/// An example input; elements are drawn by the tests from [low, high) (integers: whole numbers in it; bool: both).
struct SampleInput {
  TensorType type;
  double low = -2;
  double high = 2;
  bool transposed = false;  ///< the last two axes come as a strided view
};
struct Sample {
  std::vector<SampleInput> inputs;
  AttributeValue attributes;
};
using Samples = std::vector<Sample> (*)();

/// Everything that Diptych knows about an op, in one place. Eager, capture, autodiff, the passes, the documentation
/// page and the test matrices all read it.
struct OpDef {
  const char* name;
  const char* doc;
  int inputs;             ///< at most, where `least_inputs` says less
  int least_inputs = -1;  ///< of an op with optional or variadic inputs
  const AttributeType* attributes = nullptr;
  Infer infer;
  View view = nullptr;
  WriteBack write_back = nullptr;  ///< of a view; null: elements repeat, so that no update is possible
  Kernel kernel;
  /// Elementwise ops: the loops by dtype of input `loop_input` (of the output where there is no input).
  std::array<LoopSet, kDTypeCount> loops{};
  int loop_input = 0;
  /// For the rare elementwise op whose loop depends on more than one dtype.
  LoopSet (*select_loop)(std::span<const TensorType* const> inputs, const TensorType& output) = nullptr;
  Vjp vjp = nullptr;
  Saves saves{};
  /// Forward mode. Null: the tangent follows from `linear`, or, for elementwise ops, from `vjp` (their Jacobians are
  /// diagonal).
  Jvp jvp = nullptr;
  /// Bit i: the op is linear in input i while the others stay: its tangent is the op of the tangent.
  std::uint32_t linear = 0;
  bool layout_sensitive = false;  ///< the result's bits depend on the strides of the inputs
  bool can_fail = false;          ///< the kernel may throw, depending on elements
  bool effect = false;            ///< does something besides computing: never dropped, merged, folded or moved
  CostFn flops = nullptr;         ///< null: none (it only moves data)
  Samples samples;
  /// For grouping in documents and colours in diagrams: "reduction", "matmul", ...; null: what the kind of op says.
  const char* family = nullptr;
  trace::Label label{name, trace::Category::op};

  std::string_view family_name() const {
    return family != nullptr ? family : elementwise() ? "elementwise" : view != nullptr ? "shape" : "other";
  }
  bool takes(std::size_t count) const {
    const int n = static_cast<int>(count);
    return n == inputs || (least_inputs >= 0 && n >= least_inputs && n < inputs);
  }
  /// "2", "2 to 8"
  std::string arity() const;
  bool elementwise() const { return select_loop != nullptr || any_loop(); }
  LoopFn loop(std::span<const TensorType* const> input_types, const TensorType& output) const {
    const auto isa = static_cast<std::size_t>(active_isa());
    if (select_loop != nullptr) {
      return select_loop(input_types, output)[isa];
    }
    const DType dtype = input_types.empty() ? output.dtype : input_types[static_cast<std::size_t>(loop_input)]->dtype;
    return loops[static_cast<std::size_t>(dtype)][isa];
  }

 private:
  bool any_loop() const {
    for (const LoopSet& set : loops) {
      if (set[0] != nullptr) {
        return true;
      }
    }
    return false;
  }
};

/// All ops without effects by name, sorted. Ops with effects (debug.h) are found by name only, and control flow
/// (graph/control_ops.h) is no op: tests, fuzzers and pages that go through the registry need not know them.
std::span<const OpDef* const> registry();
/// Null if there is none.
const OpDef* find_op(std::string_view name);

/// Registers itself; a static object of the op's file.
class Op {
 public:
  explicit Op(const OpDef& definition);
  const OpDef& operator*() const { return definition_; }
  const OpDef* operator->() const { return &definition_; }

 private:
  mutable OpDef definition_;  ///< WithoutKernels writes to it
};

/// While one lives, ops do everything but compute: on the same path as ever, each kernel and loop is one that does
/// nothing, and outputs hold what was in their memory. What they cost beside kernels can then be timed by itself.
/// Graphs that are compiled meanwhile keep such loops. Not while ops run on other threads.
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
