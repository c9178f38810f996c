// Exact algebraic simplification. Every rule keeps all bits, for every input: zeros of both signs, infinities,
// subnormals, and that NaN is NaN. What is missing is missing on purpose: x + 0 (turns -0 into 0), x * 0 (NaN,
// infinity, sign), reassociation. c is a constant whose elements are all equal.
//
//   x * 1          -> x          a product with 1 is exact
//   x / 1          -> x          so is a quotient
//   x - (+0)       -> x          -0 - 0 = -0; only with the sign plus
//   x + (-0)       -> x          the one zero that adds nothing: 0 + -0 = 0, -0 + -0 = -0
//   x / 2^k        -> x * 2^-k   both round the same real number once; 2^-k must be a normal number
//   x * 2          -> x + x      the same real number, rounded once
//   neg(neg(x))    -> x          two flips of one bit
//   abs(neg(x)), abs(abs(x)) -> abs(x)        not abs(neg(x)) of u8, whose neg wraps around
//   relu(relu(x))  -> relu(x)    a fixed point
//   where(p, x, x) -> x
//   maximum(x, x), minimum(x, x) -> x
//   reshape(reshape(x)) -> reshape(x); a view that changes neither shape nor order -> x
//   permute(permute(x)) -> permute(x), or x if together they do nothing
//   copy(x), stop_gradient(x) -> x
//
// What feeds a layout-sensitive op (matmul, whose BLAS flags follow the strides), directly or through views, stays as
// it is: the same elements in another layout may give other bits. So does what feeds a region, which may hold such ops.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "framework/core/tensor_body.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/full.h"
#include "framework/passes/pass.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

class Simplifier {
 public:
  explicit Simplifier(Graph& graph)
      : graph_(graph),
        replacement_(identity_replacement(graph)),
        producer_(graph.types.size(), nullptr),
        constant_(graph.types.size(), nullptr),
        fixed_layout_(graph.types.size(), false) {}

  bool run() {
    for (const auto& [value, tensor] : graph_.constants) {
      constant_[value] = &tensor;
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (node->op->layout_sensitive || node->is_control() ||
          (node->op->view != nullptr && fixed_layout_[node->output])) {
        for (ValueId input : node->inputs) {
          fixed_layout_[input] = true;
        }
      }
    }
    for (Node& node : graph_.nodes) {
      for (ValueId& input : node.inputs) {
        input = replacement_[input];
      }
      if (node.is_control()) {
        continue;
      }
      producer_[node.output] = &node;
      constexpr int kMostSteps = 8;  // one rewrite may enable another
      for (int step = 0; step < kMostSteps && !same_as(node) && rewrite(node); ++step) {
        changed_ = true;
      }
      if (const std::optional<ValueId> same = same_as(node)) {
        replacement_[node.output] = *same;
        changed_ = true;
        if (Node* survivor = producer_[*same]) {
          merge_provenance(survivor->provenance, node.provenance);
        }
      }
    }
    replace_uses(graph_, replacement_);
    return changed_;
  }

 private:
  static bool is(const Node* node, std::string_view op) { return node != nullptr && node->op->name == op; }
  const Node* producer(const Node& node, std::size_t input) const { return producer_[node.inputs[input]]; }
  const TensorType& type(ValueId value) const { return graph_.types[value]; }

  /// The number if all elements of a value are known to be the same one (to the bit).
  std::optional<double> splat(ValueId value) const {
    while (producer_[value] != nullptr && producer_[value]->op->view != nullptr) {
      value = producer_[value]->inputs[0];
    }
    if (const Node* node = producer_[value]; is(node, "full")) {
      const auto& attributes = node->attributes.as<FullAttributes>();
      return attributes.dtype == DType::float32 ? static_cast<double>(static_cast<float>(attributes.value))
                                                : attributes.value;
    }
    const Tensor* tensor = constant_[value];
    if (tensor == nullptr || tensor->numel() == 0) {
      return std::nullopt;
    }
    const TensorBody& body = *tensor->body();
    make_ready(body);
    const std::size_t size = size_of(body.type.dtype);
    for (std::int64_t i = 1; i < body.numel; ++i) {
      if (std::memcmp(body.bytes(), body.bytes() + static_cast<std::size_t>(i) * size, size) != 0) {
        return std::nullopt;
      }
    }
    return visit(body.type.dtype, [&]<class T>() { return static_cast<double>(*static_cast<const T*>(body.data)); });
  }
  bool is_splat(ValueId value, double wanted) const {
    const std::optional<double> number = splat(value);
    return number && std::bit_cast<std::uint64_t>(*number) == std::bit_cast<std::uint64_t>(wanted);
  }

  /// The value that a node's output always equals, if there is one.
  std::optional<ValueId> same_as(const Node& node) const {
    if (fixed_layout_[node.output]) {
      return std::nullopt;
    }
    const std::optional<ValueId> same = candidate(node);
    return same && type(*same) == type(node.output) ? same : std::nullopt;
  }

  std::optional<ValueId> candidate(const Node& node) const {
    const std::string_view op = node.op->name;
    const auto input = [&](std::size_t i) { return node.inputs[i]; };
    if (op == "mul") {
      return is_splat(input(1), 1)   ? std::optional(input(0))
             : is_splat(input(0), 1) ? std::optional(input(1))
                                     : std::nullopt;
    }
    if (op == "add") {
      return is_splat(input(1), -0.0)   ? std::optional(input(0))
             : is_splat(input(0), -0.0) ? std::optional(input(1))
                                        : std::nullopt;
    }
    if ((op == "div" && is_splat(input(1), 1)) || (op == "sub" && is_splat(input(1), 0.0))) {
      return input(0);
    }
    if (op == "neg" && is(producer(node, 0), "neg")) {
      return producer(node, 0)->inputs[0];
    }
    if ((op == "relu" || op == "abs") && is(producer(node, 0), op)) {
      return input(0);
    }
    if (op == "where" && input(1) == input(2)) {
      return input(1);
    }
    if ((op == "maximum" || op == "minimum") && input(0) == input(1)) {
      return input(0);
    }
    if (op == "reshape" || op == "expand" || op == "slice" || op == "stop_gradient" || op == "copy") {
      return input(0);  // if the type is the same, so are the elements
    }
    if (op == "permute") {
      return is_identity(permutation(node)) ? std::optional(input(0)) : std::nullopt;
    }
    return std::nullopt;
  }

  bool rewrite(Node& node) {
    const std::string_view op = node.op->name;
    if (op == "div" && is_floating(type(node.output).dtype)) {
      return divide_by_power_of_two(node);
    }
    if (op == "mul" && is_splat(node.inputs[1], 2) && type(node.inputs[0]) == type(node.output)) {
      node.op = find_op("add");
      node.inputs[1] = node.inputs[0];
      return true;
    }
    if (op == "abs" && is(producer(node, 0), "neg") && type(node.output).dtype != DType::uint8) {
      node.inputs[0] = producer(node, 0)->inputs[0];
      return true;
    }
    if (op == "reshape" && is(producer(node, 0), "reshape") && !fixed_layout_[node.output]) {
      node.inputs[0] = producer(node, 0)->inputs[0];
      return true;
    }
    if (op == "permute" && is(producer(node, 0), "permute")) {
      const Axes inner = permutation(*producer(node, 0));
      Axes combined = permutation(node);
      for (int i = 0; i < combined.rank(); ++i) {
        combined[i] = inner[static_cast<int>(combined[i])];
      }
      node.attributes.type()->parse_field(node.attributes.get(), "axes", to_string(combined));
      node.inputs[0] = producer(node, 0)->inputs[0];
      return true;
    }
    return false;
  }

  bool divide_by_power_of_two(Node& node) {
    const std::optional<double> divisor = splat(node.inputs[1]);
    int exponent = 0;
    if (!divisor || std::fabs(std::frexp(*divisor, &exponent)) != 0.5 || std::abs(exponent) > 100 || *divisor == 1.0) {
      return false;
    }
    // A constant of its own: the divisor may have other users.
    const TensorType divisor_type = type(node.inputs[1]);
    Tensor factor = Tensor::empty(divisor_type.dtype, divisor_type.shape);
    visit(divisor_type.dtype, [&]<class T>() {
      std::fill_n(static_cast<T*>(factor.body()->data), factor.numel(), static_cast<T>(1.0 / *divisor));
    });
    const ValueId value = graph_.new_value(divisor_type);
    graph_.constants.emplace_back(value, factor);
    replacement_.push_back(value);
    producer_.push_back(nullptr);
    fixed_layout_.push_back(false);
    constant_.push_back(nullptr);  // `constants` may have moved; nothing needs this one
    rebuild_constants();
    node.op = find_op("mul");
    node.inputs[1] = value;
    return true;
  }

  void rebuild_constants() {
    for (const auto& [value, tensor] : graph_.constants) {
      constant_[value] = &tensor;
    }
  }

  static Axes permutation(const Node& node) {
    Axes axes;
    // The attributes' text is their interface: "axes=[1,0]".
    const std::string text = node.attributes.print();
    detail::parse_field(std::string_view(text).substr(text.find('=') + 1), axes);
    return axes;
  }
  static bool is_identity(const Axes& axes) {
    for (int i = 0; i < axes.rank(); ++i) {
      if (axes[i] != i) {
        return false;
      }
    }
    return true;
  }

  Graph& graph_;
  std::vector<ValueId> replacement_;
  std::vector<Node*> producer_;
  std::vector<const Tensor*> constant_;
  std::vector<bool> fixed_layout_;
  bool changed_ = false;
};

}  // namespace

bool simplify(Graph& graph) { return Simplifier(graph).run(); }

}  // namespace diptych::passes
