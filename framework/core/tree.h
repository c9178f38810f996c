#pragma once

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"

/// Trees of tensors: a Tensor, or a pair, tuple, array or vector of trees. Transformed functions (jit, grad) may take
/// and return them. A struct becomes one by defining `auto tie() { return std::tie(a, b); }`.
namespace diptych {

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

/// Calls `visit(Tensor&)` for every tensor, in order. `Tree` may be const.
template <class Tree, class Visit>
void for_each_tensor(Tree& tree, const Visit& visitor) {
  using Plain = std::remove_const_t<Tree>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    visitor(tree);
  } else if constexpr (IsTuple<Plain>::value) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, visitor), ...); }, tree);
  } else if constexpr (requires { tree.tie(); }) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, visitor), ...); }, tree.tie());
  } else {
    for (auto& part : tree) {
      for_each_tensor(part, visitor);
    }
  }
}

namespace detail {
template <template <class...> class Tuple, class... Parts>
constexpr bool are_trees(const Tuple<Parts...>* /*of*/);
}

/// Whether for_each_tensor() takes it.
template <class T>
constexpr bool is_tree() {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    return true;
  } else if constexpr (IsTuple<Plain>::value) {
    return detail::are_trees(static_cast<const Plain*>(nullptr));
  } else if constexpr (requires(Plain & tree) { tree.tie(); }) {
    return is_tree<decltype(std::declval<Plain&>().tie())>();
  } else if constexpr (requires(Plain & list) { *list.begin(); }) {
    return is_tree<decltype(*std::declval<Plain&>().begin())>();
  } else {
    return false;
  }
}

namespace detail {
template <template <class...> class Tuple, class... Parts>
constexpr bool are_trees(const Tuple<Parts...>* /*of*/) {
  return (is_tree<Parts>() && ...);
}
}  // namespace detail

/// The lengths of the lists in a tree, in order: two trees of one type with equal lengths have the same structure.
template <class Tree>
void append_lengths(const Tree& tree, std::vector<std::size_t>& lengths) {
  if constexpr (std::is_same_v<Tree, Tensor>) {
    return;
  } else if constexpr (IsTuple<Tree>::value) {
    std::apply([&](const auto&... parts) { (append_lengths(parts, lengths), ...); }, tree);
  } else if constexpr (requires { tree.tie(); }) {
    std::apply([&](const auto&... parts) { (append_lengths(parts, lengths), ...); }, tree.tie());
  } else {
    lengths.push_back(static_cast<std::size_t>(std::distance(tree.begin(), tree.end())));
    for (const auto& part : tree) {
      append_lengths(part, lengths);
    }
  }
}

template <class Tree>
void append_tensors(const Tree& tree, std::vector<Tensor>& tensors) {
  for_each_tensor(tree, [&](const Tensor& tensor) { tensors.push_back(tensor); });
}

template <class Tree>
std::vector<Tensor> flatten_tree(const Tree& tree) {
  std::vector<Tensor> tensors;
  append_tensors(tree, tensors);
  return tensors;
}

/// Keeps the structure and releases the tensors.
template <class Tree>
void clear_tree(Tree& tree) {
  for_each_tensor(tree, [](Tensor& tensor) { tensor = Tensor(); });
}

/// The tree with its tensors replaced by `tensors`, in order.
template <class Tree>
Tree rebuild_tree(Tree tree, std::span<const Tensor> tensors) {
  std::size_t next = 0;
  for_each_tensor(tree, [&](Tensor& tensor) { tensor = tensors[next++]; });
  return tree;
}

}  // namespace diptych
