#pragma once

#include <optional>
#include <tuple>

#include "framework/core/context.h"
#include "framework/core/tree.h"
#include "framework/core/variable.h"
#include "framework/dispatch/tape.h"

/// Products with the Jacobian of a function from either side, as in torch.func. Functions take and return tensors, or
/// pairs, tuples or vectors of them, all floating-point. Transforms can be nested in any order.
///
///   auto [y, tangent] = jvp(f, x, v);          // J v, in one forward sweep
///   auto [y, pullback] = vjp(f, x);            // pullback(u) = J^T u, any number of times
namespace diptych {

namespace detail {

/// One call of a function with its tape.
struct Recording {
  std::vector<Tensor> inputs;   ///< watched
  std::vector<Tensor> outputs;  ///< with their tape
  std::uint64_t serial = 0;     ///< that of the first node
  Location where;

  /// The values for the caller: without the tape, unless it belongs to an outer transform too.
  std::vector<Tensor> values() const;
  std::vector<Tensor> pull(std::span<const Tensor> cotangents) const;
  std::vector<Tensor> push(std::span<const Tensor> tangents) const;
};

/// Throws Error with the name of the transform unless the two trees have the same types.
void check_like(const char* transform, std::span<const Tensor> given, std::span<const Tensor> expected, Location where);

template <class Fn, class... Arguments>
auto record(Fn& function, const std::tuple<Arguments...>& arguments, bool save_all, Location where) {
  using Result = std::decay_t<std::invoke_result_t<Fn&, const Arguments&...>>;
  const EnableGrad enable;
  std::optional<autograd::SaveAll> save;
  if (save_all) {
    save.emplace();
  }
  Recording recording;
  recording.where = where;
  recording.serial = autograd::next_serial();
  for_each_tensor(arguments, [&](const Tensor& tensor) { recording.inputs.push_back(autograd::watch(tensor, where)); });
  Result result = std::apply(function, rebuild_tree(arguments, recording.inputs));
  recording.outputs = flatten_tree(result);
  return std::pair(std::move(recording), std::move(result));
}

/// Unwraps a tuple with one element.
template <class... T>
auto unwrap(std::tuple<T...> tree) {
  if constexpr (sizeof...(T) == 1) {
    return std::get<0>(std::move(tree));
  } else {
    return tree;
  }
}

}  // namespace detail

/// J^T u for one call of a function; keeps that call's tape alive.
template <class Result, class... Arguments>
class Pullback {
 public:
  Pullback(detail::Recording recording, std::tuple<Arguments...> like)
      : recording_(std::move(recording)), like_(std::move(like)) {}

  /// The cotangents of the arguments (a tuple if there are several), each with its argument's type.
  auto operator()(const Result& cotangent) const {
    return detail::unwrap(rebuild_tree(like_, recording_.pull(flatten_tree(cotangent))));
  }

 private:
  detail::Recording recording_;
  std::tuple<Arguments...> like_;
};

/// J v for one call of a function; keeps that call's tape alive.
template <class Result, class... Arguments>
class LinearMap {
 public:
  LinearMap(detail::Recording recording, Result like) : recording_(std::move(recording)), like_(std::move(like)) {}

  Result operator()(const Arguments&... tangents) const {
    return rebuild_tree(like_, recording_.push(flatten_tree(std::tie(tangents...))));
  }

 private:
  detail::Recording recording_;
  Result like_;
};

/// (f(arguments...), pullback).
template <class Fn, class... Arguments>
auto vjp(Fn&& function, const Arguments&... arguments) {
  const std::tuple<Arguments...> tree(arguments...);
  auto [recording, result] = detail::record(function, tree, /*save_all=*/false, Location::current());
  using Result = std::decay_t<decltype(result)>;
  Result value = rebuild_tree(result, recording.values());
  return std::pair(std::move(value), Pullback<Result, Arguments...>(std::move(recording), tree));
}

/// (f(arguments...), linear map), where the linear map takes tangents to the tangent of the result, any number of
/// times.
template <class Fn, class... Arguments>
auto linearize(Fn&& function, const Arguments&... arguments) {
  const std::tuple<Arguments...> tree(arguments...);
  auto [recording, result] = detail::record(function, tree, /*save_all=*/true, Location::current());
  using Result = std::decay_t<decltype(result)>;
  Result value = rebuild_tree(result, recording.values());
  return std::pair(value, LinearMap<Result, Arguments...>(std::move(recording), value));
}

/// (f(primals), J tangents): forward mode. `primals` and `tangents` are one argument, or tuples of all of them.
template <class Fn, class... Arguments>
auto jvp(Fn&& function, const std::tuple<Arguments...>& primals, const std::tuple<Arguments...>& tangents,
         Location where = Location::current()) {
  auto [recording, result] = detail::record(function, primals, /*save_all=*/true, where);
  using Result = std::decay_t<decltype(result)>;
  Result tangent = rebuild_tree(result, recording.push(flatten_tree(tangents)));
  Result value = rebuild_tree(result, recording.values());
  return std::pair(std::move(value), std::move(tangent));
}
template <class Fn>
auto jvp(Fn&& function, const Tensor& primal, const Tensor& tangent, Location where = Location::current()) {
  return jvp(std::forward<Fn>(function), std::tuple(primal), std::tuple(tangent), where);
}

namespace detail {
/// Row k of the identity on `like`'s elements, in its shape.
Tensor basis(const Tensor& like, std::int64_t k, Location where);
/// The cotangent 1 of a scalar; throws Error unless it is one.
Tensor one(const Tensor& scalar, const char* transform, Location where);
/// Stacks rows (each of `row`'s shape) into one tensor of shape `leading` + row's shape.
Tensor stack_rows(const std::vector<Tensor>& rows, const Shape& leading, const TensorType& row, Location where);
/// Stacks columns the same way, into shape column's shape + `trailing`.
Tensor stack_columns(const std::vector<Tensor>& columns, const Shape& trailing, const TensorType& column,
                     Location where);

/// `function` as a function of argument `position` alone.
template <class Fn, class... Arguments>
auto of_argument(Fn& function, int position, const std::tuple<Arguments...>& arguments) {
  return [&function, position, &arguments](const Tensor& x) {
    std::tuple<Arguments...> changed = arguments;
    int index = 0;
    std::apply([&](auto&... parts) { ((index++ == position ? void(parts = x) : void()), ...); }, changed);
    return std::apply(function, changed);
  };
}
const Tensor& argument_at(std::span<const Tensor> arguments, int position, const char* transform, Location where);
}  // namespace detail

/// The Jacobian of a function of tensors with respect to one of them, row by row in reverse mode: shape result +
/// argument. Preferable if the argument has more elements than the result.
template <class Fn>
auto jacrev(Fn&& function, int position = 0, Location where = Location::current()) {
  return [function = std::decay_t<Fn>(std::forward<Fn>(function)), position, where](const auto&... arguments) mutable {
    const auto all = std::tuple(Tensor(arguments)...);
    const std::vector<Tensor> flat{arguments...};
    const Tensor x = detail::argument_at(flat, position, "jacrev", where);
    const auto [y, pullback] = vjp(detail::of_argument(function, position, all), x);
    std::vector<Tensor> rows;
    for (std::int64_t k = 0; k < y.numel(); ++k) {
      rows.push_back(pullback(detail::basis(y, k, where)));
    }
    return detail::stack_rows(rows, y.shape(), x.type(), where);
  };
}

/// The same Jacobian, column by column in forward mode. Preferable if the result has more elements than the argument.
template <class Fn>
auto jacfwd(Fn&& function, int position = 0, Location where = Location::current()) {
  return [function = std::decay_t<Fn>(std::forward<Fn>(function)), position, where](const auto&... arguments) mutable {
    const auto all = std::tuple(Tensor(arguments)...);
    const std::vector<Tensor> flat{arguments...};
    const Tensor x = detail::argument_at(flat, position, "jacfwd", where);
    const auto [y, push] = linearize(detail::of_argument(function, position, all), x);
    std::vector<Tensor> columns;
    for (std::int64_t k = 0; k < x.numel(); ++k) {
      columns.push_back(push(detail::basis(x, k, where)));
    }
    return detail::stack_columns(columns, x.shape(), y.type(), where);
  };
}

/// The second derivatives of a scalar function with respect to one argument, shape argument + argument: forward over
/// reverse.
template <class Fn>
auto hessian(Fn&& function, int position = 0, Location where = Location::current()) {
  return jacfwd(jacrev(std::forward<Fn>(function), position, where), position, where);
}

/// (f(x), H v) of a scalar function: forward over reverse, at a small multiple of the gradient's cost.
template <class Fn>
auto hvp(Fn&& function, const Tensor& x, const Tensor& v, Location where = Location::current()) {
  auto gradient = [&](const Tensor& at) {
    auto [value, pullback] = vjp(function, at);
    return std::pair(value, pullback(detail::one(value, "hvp", where)));
  };
  auto [results, tangents] = jvp(gradient, x, v, where);
  return std::pair(results.first, tangents.second);
}

}  // namespace diptych
