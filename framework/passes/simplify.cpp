// Exact algebraic simplification. Every rule preserves all bits, for every input: zeros of both signs, infinities and
// subnormals, and NaN stays NaN. Missing rules are missing on purpose: x + 0 (turns -0 into 0), x * 0 (NaN, infinity,
// sign), reassociation.
//
//   %2 = neg(%0)
//   %3 = neg(%2)          =>   %4 = add(%0, %1)
//   %4 = add(%3, %1)
//
// With `--gemm openblas`, values that feed a contraction (whose BLAS flags follow the strides), directly or through
// views, keep their layout: the same elements in another layout may give other bits. So do values that feed a region,
// which may contain such ops.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "framework/core/tensor_body.h"
#include "framework/graph/rewriter.h"
#include "framework/graph/splat.h"
#include "framework/kernels/gemm.h"
#include "framework/ops/creation.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/matrices.h"
#include "framework/ops/shape_ops.h"
#include "framework/ops/window_ops.h"
#include "framework/passes/pass.h"
#include "framework/passes/views.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::Rewriter;
using graph::ValueId;

/// An expression: an op applied to expressions, a variable, or a number, which stands for a value whose elements all
/// equal it, to the bit.
struct Term {
  const OpDef* op = nullptr;
  int variable = -1;
  std::optional<double> number = {};
  std::vector<Term> inputs = {};
};

const Term x{.variable = 0};
const Term p{.variable = 1};
constexpr int kVariables = 2;
Term number(double value) { return {.number = value}; }

#define DIPTYCH_TERM(name)                           \
  template <class... Inputs>                         \
  Term name(const Inputs&... inputs) {               \
    return {.op = &op::name, .inputs = {inputs...}}; \
  }
DIPTYCH_TERM(abs)
DIPTYCH_TERM(add)
DIPTYCH_TERM(copy)
DIPTYCH_TERM(div)
DIPTYCH_TERM(expand)
DIPTYCH_TERM(maximum)
DIPTYCH_TERM(minimum)
DIPTYCH_TERM(mul)
DIPTYCH_TERM(neg)
DIPTYCH_TERM(pow)
DIPTYCH_TERM(reciprocal)
DIPTYCH_TERM(relu)
DIPTYCH_TERM(reshape)
DIPTYCH_TERM(slice)
DIPTYCH_TERM(square)
DIPTYCH_TERM(stop_gradient)
DIPTYCH_TERM(sub)
DIPTYCH_TERM(where)
#undef DIPTYCH_TERM

/// `from` equals `to` if both have the same type.
struct Rule {
  Term from;
  Term to;
  const char* why;
  bool (*holds)(const TensorType& type) = nullptr;  ///< condition on the result; null: always
  bool new_layout = false;                          ///< the result's strides may change
};
Rule rewrite(Term from, Term to, const char* why, bool (*holds)(const TensorType& type) = nullptr) {
  return {std::move(from), std::move(to), why, holds};
}
Rule rewrite_layout(Term from, Term to, const char* why) {
  return {std::move(from), std::move(to), why, nullptr, true};
}

bool has_sign(const TensorType& type) { return type.dtype != DType::uint8; }
bool has_fractions(const TensorType& type) { return is_floating(type.dtype); }

const std::vector<Rule>& rules() {
  static const Term one = number(1);
  static const std::vector<Rule> all{
      rewrite(mul(x, one), x, "a product with 1 is exact"),
      rewrite(mul(one, x), x, "a product with 1 is exact"),
      rewrite(div(x, one), x, "so is a quotient"),
      rewrite(sub(x, number(0.0)), x, "-0 - 0 = -0; only with the sign plus"),
      rewrite(add(x, number(-0.0)), x, "the one zero that adds nothing: 0 + -0 = 0, -0 + -0 = -0"),
      rewrite(add(number(-0.0), x), x, "the same"),
      rewrite(mul(x, number(2)), add(x, x), "the same real number, rounded once"),
      rewrite(pow(x, number(2)), square(x), "pow's own form for this exponent (math/power.h)"),
      rewrite(pow(x, one), x, "the same"),
      rewrite(pow(x, number(-1)), reciprocal(x), "the same; integers have no reciprocal", has_fractions),
      rewrite(neg(neg(x)), x, "two flips of one bit"),
      rewrite(abs(neg(x)), abs(x), "the sign goes; not of u8, whose neg wraps around", has_sign),
      rewrite(abs(abs(x)), abs(x), "a fixed point"),
      rewrite(relu(relu(x)), relu(x), "a fixed point"),
      rewrite(where(p, x, x), x, "whichever is taken"),
      rewrite(where(one, x, p), x, "the one that is taken"),
      rewrite(where(number(0), p, x), x, "the same"),
      rewrite(maximum(x, x), x, "the larger of two that are one"),
      rewrite(minimum(x, x), x, "the same"),
      rewrite(copy(x), x, "a value has no identity"),
      rewrite(stop_gradient(x), x, "gradients are in the graph by now"),
      rewrite(reshape(x), x, "to its own shape"),
      rewrite(expand(x), x, "to its own shape"),
      rewrite(slice(x), x, "of its own length: every element, in order"),
      rewrite_layout(reshape(reshape(x)), reshape(x), "the order of elements is that of the first"),
  };
  return all;
}

/// Keyed by the op at their root.
const std::unordered_map<const OpDef*, std::vector<const Rule*>>& rules_of() {
  static const auto by_op = [] {
    std::unordered_map<const OpDef*, std::vector<const Rule*>> map;
    for (const Rule& rule : rules()) {
      map[rule.from.op].push_back(&rule);
    }
    return map;
  }();
  return by_op;
}

class Simplifier {
 public:
  Simplifier(Graph& graph, const PassContext& context)
      : users_(graph), values_(graph.types.size()), rewriter_(graph), layouts_(context.fixed_layouts()) {}

  bool run() {
    return rewriter_.run([&](Node& node) {
      constexpr int kMostSteps = 8;  // one rewrite may enable another
      for (int step = 0; step < kMostSteps && node.regions.empty(); ++step) {
        if (const std::optional<ValueId> same = same_as(node)) {
          rewriter_.replace(node, *same);
          return;
        }
        if (!rewrite_node(node)) {
          return;
        }
      }
    });
  }

 private:
  using Bindings = std::array<std::optional<ValueId>, kVariables>;

  const TensorType& type(ValueId value) const { return rewriter_.type(value); }
  /// What others read stays: beside a reshape that copies, a second one of the same would copy again.
  bool is_read_once(ValueId value) const {
    return value < values_ && users_.count(value) == 1 && !users_.is_result(value);
  }
  bool is_fixed(const Node& node) const { return layouts_.contains(node.output()); }

  /// The number if all elements of a value are known to be equal (to the bit).
  std::optional<double> splat(ValueId value) const {
    return graph::splat_of(
        value, [&](ValueId v) { return rewriter_.producer(v); }, [&](ValueId v) { return rewriter_.constant(v); });
  }

  bool matches(const Term& term, ValueId value, Bindings& bindings) const {
    if (term.number) {
      const std::optional<double> known = splat(value);
      return known && std::bit_cast<std::uint64_t>(*known) == std::bit_cast<std::uint64_t>(*term.number);
    }
    if (term.variable >= 0) {
      std::optional<ValueId>& bound = bindings[static_cast<std::size_t>(term.variable)];
      return bound.value_or(value) == value && (bound = value).has_value();
    }
    const Node* node = rewriter_.producer(value);
    return node != nullptr && node->op == term.op && matches(term, *node, bindings);
  }
  bool matches(const Term& term, const Node& node, Bindings& bindings) const {
    bool all = term.inputs.size() == node.inputs.size();
    for (std::size_t i = 0; all && i < term.inputs.size(); ++i) {
      all = matches(term.inputs[i], node.inputs[i], bindings);
    }
    return all;
  }
  std::optional<Bindings> match(const Rule& rule, const Node& node) const {
    Bindings bindings;
    const bool found = (rule.holds == nullptr || rule.holds(type(node.output()))) &&
                       !(rule.new_layout && (is_fixed(node) || !is_read_once(node.inputs[0]))) &&
                       matches(rule.from, node, bindings);
    return found ? std::optional(bindings) : std::nullopt;
  }
  static std::span<const Rule* const> rules_of_op(const OpDef* op) {
    const auto found = rules_of().find(op);
    return found != rules_of().end() ? std::span<const Rule* const>(found->second) : std::span<const Rule* const>();
  }

  /// The value that a node's output is always equal to, if there is one.
  std::optional<ValueId> same_as(const Node& node) const {
    if (is_fixed(node)) {
      return std::nullopt;
    }
    if (node.op == &op::permute) {
      return is_identity(permutation(node)) ? std::optional(node.inputs[0]) : std::nullopt;
    }
    for (const Rule* rule : rules_of_op(node.op)) {
      if (rule->to.op == nullptr) {
        const std::optional<Bindings> found = match(*rule, node);
        const ValueId same = found ? *(*found)[static_cast<std::size_t>(rule->to.variable)] : node.output();
        if (found && type(same) == type(node.output())) {
          return same;
        }
      }
    }
    return std::nullopt;
  }

  bool rewrite_node(Node& node) {
    if (node.op == &op::div) {
      return divide_by_power_of_two(node);
    }
    if (node.op == &op::permute) {
      return merge_permutations(node);
    }
    if (node.op == &op::pow && splat(node.inputs[1]) == 0.0) {
      return become_ones(node);
    }
    if (node.op == &op::matmul) {
      return multiply_one_row(node) || multiply_one_column(node);
    }
    for (const Rule* rule : rules_of_op(node.op)) {
      if (rule->to.op == nullptr) {
        continue;
      }
      if (const std::optional<Bindings> found = match(*rule, node)) {
        std::vector<ValueId> inputs;
        for (const Term& input : rule->to.inputs) {
          inputs.push_back(*(*found)[static_cast<std::size_t>(input.variable)]);
        }
        const AttributeValue attributes =
            rule->to.op == node.op ? node.attributes : AttributeValue(rule->to.op->attributes, nullptr);
        if (inputs != node.inputs && rewriter_.inferred(*rule->to.op, inputs, attributes) == type(node.output())) {
          rewriter_.become(node, *rule->to.op, std::move(inputs), attributes);
          return true;
        }
      }
    }
    return false;
  }

  /// x / 2^k equals x * 2^-k: both round the same real number once. 2^-k must be a normal number.
  bool divide_by_power_of_two(Node& node) {
    if (!is_floating(type(node.output()).dtype)) {
      return false;
    }
    const std::optional<double> divisor = splat(node.inputs[1]);
    int exponent = 0;
    if (!divisor || std::fabs(std::frexp(*divisor, &exponent)) != 0.5 || std::abs(exponent) > 100 || *divisor == 1.0) {
      return false;
    }
    // A separate constant, because the divisor may have other users; of one element, unless the result has its shape.
    const TensorType divisor_type = type(node.inputs[1]);
    const bool is_number = type(node.inputs[0]).shape == type(node.output()).shape;
    Tensor factor = Tensor::empty(divisor_type.dtype, is_number ? Shape{} : divisor_type.shape);
    visit(divisor_type.dtype, [&]<class T>() {
      std::fill_n(static_cast<T*>(factor.body()->data), factor.numel(), static_cast<T>(1.0 / *divisor));
    });
    rewriter_.become(node, op::mul, {node.inputs[0], rewriter_.insert_constant(factor)},
                     AttributeValue(op::mul.attributes, nullptr));
    return true;
  }

  /// x^0 is 1 for every x, NaN too.
  bool become_ones(Node& node) {
    if (is_fixed(node)) {
      return false;
    }
    const TensorType& ones = type(node.output());
    const ops::FullAttributes attributes{.shape = ones.shape, .dtype = ones.dtype, .value = 1};
    rewriter_.become(node, op::full, {}, AttributeValue(op::full.attributes, &attributes));
    return true;
  }

  /// A left side whose elements are all equal, as the gradient of a sum is, gives the same row again and again: each
  /// element of a product is a sum of its own, whose order depends on its length alone (not in BLAS).
  bool multiply_one_row(Node& node) {
    const Shape& left = type(node.inputs[0]).shape;
    return left.rank() >= 2 && multiply_smaller(node, 0, with_ones(left, left.back(), left.rank() - 1));
  }
  /// And such a right side the same column.
  bool multiply_one_column(Node& node) {
    const Shape& right = type(node.inputs[1]).shape;
    return right.rank() >= 2 && multiply_smaller(node, 1, with_ones(right, ops::rows_of(right), right.rank() - 2));
  }
  /// Ones, but `length` along one axis.
  static Shape with_ones(const Shape& like, std::int64_t length, int axis) {
    Shape shape;
    for (int i = 0; i < like.rank(); ++i) {
      shape.push_back(i == axis ? length : 1);
    }
    return shape;
  }
  /// The product with the number that input `which` is made of, in this shape, expanded.
  bool multiply_smaller(Node& node, std::size_t which, const Shape& shape) {
    const TensorType whole = type(node.inputs[which]);
    const std::optional<double> number = splat(node.inputs[which]);
    if (!number || whole.shape == shape || whole.shape.contains(0) || kernels::active_gemm() != kernels::Gemm::tiles) {
      return false;
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[which] = rewriter_.insert(op::expand, {rewriter_.insert_constant(full({}, *number, whole.dtype))},
                                     to_shape(shape), node);
    const ValueId smaller = rewriter_.insert(op::matmul, inputs, node.attributes, node);
    rewriter_.become(node, op::expand, {smaller}, to_shape(type(node.output()).shape));
    return true;
  }

  /// Replaces two views by one with the same strides.
  bool merge_permutations(Node& node) {
    const Node* inner = rewriter_.producer(node.inputs[0]);
    if (inner == nullptr || inner->op != &op::permute) {
      return false;
    }
    ops::AxesAttributes combined{permutation(node)};
    for (int i = 0; i < combined.axes.rank(); ++i) {
      combined.axes[i] = permutation(*inner)[static_cast<int>(combined.axes[i])];
    }
    rewriter_.become(node, op::permute, inner->inputs, AttributeValue(&attribute_type<ops::AxesAttributes>, &combined));
    return true;
  }

  static const Axes& permutation(const Node& node) { return node.attributes.as<ops::AxesAttributes>().axes; }
  static bool is_identity(const Axes& axes) {
    for (int i = 0; i < axes.rank(); ++i) {
      if (axes[i] != i) {
        return false;
      }
    }
    return true;
  }

  graph::Users users_;  ///< before the sweep
  std::size_t values_ = 0;
  Rewriter rewriter_;
  graph::FixedLayouts layouts_;
};

}  // namespace

bool simplify(Graph& graph, const PassContext& context) { return Simplifier(graph, context).run(); }

}  // namespace diptych::passes
