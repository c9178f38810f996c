#pragma once

#include <optional>

#include "framework/capture/region.h"
#include "framework/core/tree.h"

/// Branches and loops that depend on elements, in eager and in graphs. The functions take and return trees of tensors
/// (core/tree.h); they may read outer tensors and variables, and assign variables. Gradients flow through everything
/// except the assignments. See docs/control-flow.md.
namespace diptych {

struct WhileOptions {
  /// Throws Error if the condition holds for longer. Reverse mode needs this bound, because it stores each iteration.
  /// 0: no limit.
  std::int64_t max_iterations = 0;
};

struct ScanOptions {
  /// Required if `xs` has no tensors; otherwise the length of their first axis.
  std::int64_t length = -1;
  /// From the last row to the first.
  bool reverse = false;
};

/// The bool[] that selects a branch, with the caller's line.
class Predicate {
 public:
  // NOLINTBEGIN(google-explicit-constructor): conversions are what it is for.
  Predicate(Tensor tensor, Location where = Location::current()) : tensor_(std::move(tensor)), where_(where) {}
  Predicate(const Variable& variable, Location where = Location::current())
      : tensor_(variable.value()), where_(where) {}
  // NOLINTEND(google-explicit-constructor)
  const Tensor& tensor() const { return tensor_; }
  Location where() const { return where_; }

 private:
  Tensor tensor_;
  Location where_;
};

namespace graph {

/// Control flow on flat lists of tensors. The functions are captured as regions during a capture, and in eager if
/// gradients may be wanted; otherwise eager calls them.
std::vector<Tensor> cond_flat(const Tensor& predicate, const RegionFunction& then, const RegionFunction& otherwise,
                              std::span<const Tensor> operands, Location where);
std::vector<Tensor> while_flat(const RegionFunction& condition, const RegionFunction& body,
                               std::span<const Tensor> init, const WhileOptions& options, Location where);
/// `body`: from carries and rows to carries and rows of ys. `count`, if defined: an i64[], the number of rows to visit.
std::vector<Tensor> scan_flat(const RegionFunction& body, std::span<const Tensor> init, std::span<const Tensor> xs,
                              const ScanOptions& options, const Tensor& count, Location where);

/// The structure of a function's last result, which the flat list stands for.
template <class Tree>
class Structure {
 public:
  std::vector<Tensor> keep(Tree tree) {
    std::vector<Tensor> flat = flatten_tree(tree);
    for_each_tensor(tree, [](Tensor& tensor) { tensor = Tensor(); });
    tree_ = std::move(tree);
    return flat;
  }
  Tree rebuild(std::span<const Tensor> tensors) const { return rebuild_tree(*tree_, tensors); }
  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> result;
    append_lengths(*tree_, result);
    return result;
  }
  bool known() const { return tree_.has_value(); }

 private:
  std::optional<Tree> tree_;
};

/// Throws unless the two lists of list lengths of a tree are equal.
void check_structure(const std::vector<std::size_t>& given, const std::vector<std::size_t>& expected, const char* what,
                     Location where);

}  // namespace graph

/// then(operands...) if the predicate is true, otherwise(operands...) if not. Both must give the same types, or nothing
/// (void); a graph and gradients check that, but eager alone sees only the branch that it takes.
template <class Then, class Else, class... Operands>
auto cond(const Predicate& predicate, Then&& then, Else&& otherwise, const Operands&... operands) {
  using Given = std::decay_t<std::invoke_result_t<Then&, const Operands&...>>;
  static_assert(std::is_same_v<Given, std::decay_t<std::invoke_result_t<Else&, const Operands&...>>>,
                "both branches of cond return the same type");
  using Result = std::conditional_t<std::is_void_v<Given>, std::tuple<>, Given>;
  graph::Structure<Result> first;
  graph::Structure<Result> second;
  const std::tuple<Operands...> structure(operands...);
  const auto branch = [&](auto& function, graph::Structure<Result>& kept) {
    return [&](std::span<const Tensor> tensors) {
      const auto rebuilt = rebuild_tree(structure, tensors);
      if constexpr (std::is_void_v<Given>) {
        std::apply(function, rebuilt);
        return std::vector<Tensor>{};
      } else {
        return kept.keep(std::apply(function, rebuilt));
      }
    };
  };
  const std::vector<Tensor> results = graph::cond_flat(
      predicate.tensor(), branch(then, first), branch(otherwise, second), flatten_tree(structure), predicate.where());
  if constexpr (!std::is_void_v<Given>) {
    if (first.known() && second.known()) {
      graph::check_structure(second.lengths(), first.lengths(), "cond: the branches give lists", predicate.where());
    }
    return (first.known() ? first : second).rebuild(results);
  }
}

/// Repeats carry = body(carry) while condition(carry), a bool[], holds; returns the last carry. The types of the carry
/// must not change.
template <class Condition, class Body, class Carry>
Carry while_loop(Condition&& condition, Body&& body, const Carry& init, const WhileOptions& options = {},
                 Location where = Location::current()) {
  graph::Structure<Carry> kept;
  std::vector<std::size_t> lengths;
  append_lengths(init, lengths);
  const std::vector<Tensor> results = graph::while_flat(
      [&](std::span<const Tensor> tensors) {
        return std::vector<Tensor>{Tensor(condition(rebuild_tree(init, tensors)))};
      },
      [&](std::span<const Tensor> tensors) {
        std::vector<Tensor> flat = kept.keep(Carry(body(rebuild_tree(init, tensors))));
        graph::check_structure(kept.lengths(), lengths, "while_loop: the body changed lists of the carry", where);
        return flat;
      },
      flatten_tree(init), options, where);
  return rebuild_tree(init, results);
}

/// For each row x of `xs` (index i of the first axis of all its tensors): (carry, y) = body(carry, x). Returns the last
/// carry, and the ys stacked along a new first axis. `body` returns a std::pair; a tree without tensors,
/// std::tuple<>(), stands for no carry, no xs or no ys.
template <class Body, class Carry, class Rows>
auto scan(Body&& body, const Carry& init, const Rows& xs, const ScanOptions& options = {},
          Location where = Location::current()) {
  using Y = std::decay_t<typename std::invoke_result_t<Body&, const Carry&, const Rows&>::second_type>;
  graph::Structure<Carry> carry_kept;
  graph::Structure<Y> kept;
  std::vector<std::size_t> lengths;
  append_lengths(init, lengths);
  const std::vector<Tensor> flat_init = flatten_tree(init);
  const std::size_t carries = flat_init.size();
  const std::vector<Tensor> results = graph::scan_flat(
      [&](std::span<const Tensor> tensors) {
        auto result = body(rebuild_tree(init, tensors.first(carries)), rebuild_tree(xs, tensors.subspan(carries)));
        std::vector<Tensor> flat = carry_kept.keep(Carry(std::move(result.first)));
        graph::check_structure(carry_kept.lengths(), lengths, "scan: the body changed lists of the carry", where);
        std::vector<std::size_t> before = kept.known() ? kept.lengths() : std::vector<std::size_t>();
        const bool again = kept.known();
        const std::vector<Tensor> ys = kept.keep(Y(std::move(result.second)));
        if (again) {
          graph::check_structure(kept.lengths(), before, "scan: the body changed lists of its ys", where);
        }
        flat.insert(flat.end(), ys.begin(), ys.end());
        return flat;
      },
      flat_init, flatten_tree(xs), options, Tensor(), where);
  const std::span<const Tensor> all(results);
  return std::pair<Carry, Y>(rebuild_tree(init, all.first(carries)), kept.rebuild(all.subspan(carries)));
}

}  // namespace diptych
