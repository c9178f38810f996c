// Elementwise comparisons and logical ops. Each entry starts with its scalar function.

#include <functional>

#include "framework/ops/binary.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

template <template <class> class Function>
struct Comparison {
  template <class T>
  DIPTYCH_INLINE static bool apply(T a, T b) {
    return Function<T>()(a, b);
  }
};

template <template <class> class Function>
OpDef comparison(const char* name, const char* doc) {
  return elementwise_op<Comparison<Function>, Domain::any, 2>(
      {.name = name, .doc = doc, .infer = infer_comparison, .flops = flops_per_element<1>, .samples = [] {
         return binary_samples(kAll, -2, 2);
       }});
}

const Op kEqual{comparison<std::equal_to>("equal", "a == b")};
const Op kNotEqual{comparison<std::not_equal_to>("not_equal", "a != b")};
const Op kLess{comparison<std::less>("less", "a < b")};
const Op kLessEqual{comparison<std::less_equal>("less_equal", "a <= b")};
const Op kGreater{comparison<std::greater>("greater", "a > b")};
const Op kGreaterEqual{comparison<std::greater_equal>("greater_equal", "a >= b")};

struct And {
  DIPTYCH_INLINE static bool apply(bool a, bool b) {
    return static_cast<bool>(static_cast<int>(a) & static_cast<int>(b));
  }
};
struct Xor {
  DIPTYCH_INLINE static bool apply(bool a, bool b) { return a != b; }
};
struct Or {
  DIPTYCH_INLINE static bool apply(bool a, bool b) {
    return static_cast<bool>(static_cast<int>(a) | static_cast<int>(b));
  }
};

template <class Function>
OpDef logical(const char* name, const char* doc) {
  std::array<LoopSet, kDTypeCount> table{};
  table[static_cast<std::size_t>(DType::boolean)] = kernels::loop_set<Function, void, bool, bool>();
  return elementwise_op({.name = name,
                         .doc = doc,
                         .inputs = 2,
                         .infer =
                             [](const InferCall& call, TensorType& output) {
                               if (call.input(0).dtype != DType::boolean) {
                                 call.fail_dtype("needs bool elements", "compare with 0 first");
                               }
                               infer_comparison(call, output);
                             },
                         .loops = table,
                         .samples = [] { return binary_samples({DType::boolean}, 0, 2); }});
}

const Op kLogicalAnd{logical<And>("logical_and", "true where both are")};
const Op kLogicalXor{logical<Xor>("logical_xor", "true where exactly one is")};
const Op kLogicalOr{logical<Or>("logical_or", "true where at least one is")};

}  // namespace

namespace op {
const OpDef& equal = *kEqual;
const OpDef& not_equal = *kNotEqual;
const OpDef& less = *kLess;
const OpDef& less_equal = *kLessEqual;
const OpDef& greater = *kGreater;
const OpDef& greater_equal = *kGreaterEqual;
const OpDef& logical_and = *kLogicalAnd;
const OpDef& logical_xor = *kLogicalXor;
const OpDef& logical_or = *kLogicalOr;
}  // namespace op

#define DIPTYCH_PUBLIC(function, op) \
  Tensor function(const Tensor& a, const Tensor& b, Location where) { return apply_promoted(op, a, b, where); }
DIPTYCH_PUBLIC(equal, kEqual)
DIPTYCH_PUBLIC(not_equal, kNotEqual)
DIPTYCH_PUBLIC(less, kLess)
DIPTYCH_PUBLIC(less_equal, kLessEqual)
DIPTYCH_PUBLIC(greater, kGreater)
DIPTYCH_PUBLIC(greater_equal, kGreaterEqual)
DIPTYCH_PUBLIC(logical_and, kLogicalAnd)
DIPTYCH_PUBLIC(logical_or, kLogicalOr)
DIPTYCH_PUBLIC(logical_xor, kLogicalXor)
#undef DIPTYCH_PUBLIC

}  // namespace diptych
