#pragma once

#include <optional>

#include "framework/core/context.h"
#include "framework/dispatch/tape.h"
#include "framework/transforms/jit.h"

/// Gradients of functions.
///
///   auto loss_and_gradients = value_and_grad(loss, {.weights = net.parameters()});
///   auto [value, aux, by_argument, by_weight] = loss_and_gradients(x, y);
namespace diptych {

struct GradOptions {
  /// Positions of the arguments to differentiate with respect to, each a Tensor. If both this and `weights` are empty:
  /// {0}.
  std::vector<int> arguments = {};
  /// Variables to differentiate with respect to.
  Variables weights = {};
};

/// The cotangent of the output ("sens"), passed as the last argument of a differentiated call:
///   grad(f)(x, sens(cotangent)) is the gradient of sum(f(x) * cotangent). Then f need not return a scalar.
struct Sens {
  Tensor cotangent;

  auto tie() { return std::tie(cotangent); }
  auto tie() const { return std::tie(cotangent); }
};
inline Sens sens(Tensor cotangent) { return {std::move(cotangent)}; }

struct NoAux {
  std::tuple<> tie() { return {}; }
  std::tuple<> tie() const { return {}; }
};

template <class Aux>
struct ValueAndGrad {
  Tensor value;
  Aux aux;
  std::vector<Tensor> arguments;  ///< one gradient per position
  std::vector<Tensor> weights;    ///< one gradient per weight

  auto tie() { return std::tie(value, aux, arguments, weights); }
  auto tie() const { return std::tie(value, aux, arguments, weights); }
};

namespace detail {

/// Watches the arguments and weights to differentiate with respect to, for one call.
class GradScope {
 public:
  GradScope(const GradOptions& options, Location where)
      : options_(options), where_(where), serial_(autograd::next_serial()) {}
  ~GradScope() { restore(); }
  GradScope(const GradScope&) = delete;
  GradScope& operator=(const GradScope&) = delete;

  template <class T>
  void watch_argument(int position, T& argument) {
    if (std::find(options_.arguments.begin(), options_.arguments.end(), position) == options_.arguments.end()) {
      return;
    }
    if constexpr (std::is_same_v<T, Tensor>) {
      argument = autograd::watch(argument, where_);
      watched_.emplace_back(position, argument);
    } else {
      throw Error("grad: an argument to differentiate by is not a Tensor", where_,
                  "choose other positions, or make it a weight");
    }
  }
  void watch_weights();
  /// Gradients with respect to argument positions (in the requested order), then to weights. If `cotangent` is
  /// undefined, the value must be a scalar. Ends the scope.
  void finish(Tensor& value, const Tensor& cotangent, std::vector<Tensor>& by_argument, std::vector<Tensor>& by_weight);

 private:
  void restore();

  const GradOptions& options_;
  Location where_;
  std::uint64_t serial_;
  std::vector<std::pair<int, Tensor>> watched_;
  std::vector<Tensor> watched_weights_;
  std::vector<Tensor> previous_weights_;
  EnableGrad enable_;
};

template <class... Arguments>
inline constexpr bool ends_with_sens = false;
template <class First, class... Rest>
inline constexpr bool ends_with_sens<First, Rest...> = ends_with_sens<Rest...>;
template <>
inline constexpr bool ends_with_sens<Sens> = true;

template <class R>
struct SplitResult {
  static_assert(std::is_same_v<R, Tensor>,
                "a differentiated function returns a scalar Tensor, or a pair of it and auxiliary results");
  using Aux = NoAux;
};
template <class A>
struct SplitResult<std::pair<Tensor, A>> {
  using Aux = A;
};

}  // namespace detail

/// The callable that value_and_grad returns. In graph mode it runs as a graph.
template <class Fn>
class ValueAndGradFunction {
 public:
  ValueAndGradFunction(Fn function, GradOptions options, Location where)
      : core_{std::move(function), std::move(options), where} {
    if (core_.options.arguments.empty() && core_.options.weights.empty()) {
      core_.options.arguments = {0};
    }
  }

  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    if (wants_graph()) {
      if (!jit_) {
        jit_.emplace(core_, graph::JitOptions{.name = "value_and_grad", .pipeline = {}, .where = core_.where});
      }
      return (*jit_)(arguments...);
    }
    return core_(arguments...);
  }

 private:
  struct Core {
    Fn function;
    GradOptions options;
    Location where;

    template <class... Arguments>
    auto operator()(const Arguments&... arguments) {
      if constexpr (detail::ends_with_sens<Arguments...>) {
        constexpr std::size_t count = sizeof...(Arguments) - 1;
        const auto all = std::tie(arguments...);
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return run(std::get<count>(all).cotangent, std::get<I>(all)...);
        }
        (std::make_index_sequence<count>());
      } else {
        return run(Tensor(), arguments...);
      }
    }

    template <class... Arguments>
    auto run(const Tensor& cotangent, const Arguments&... arguments) {
      using R = std::decay_t<std::invoke_result_t<Fn&, const Arguments&...>>;
      detail::GradScope scope(options, where);
      std::tuple<Arguments...> watched(arguments...);
      int position = 0;
      std::apply([&](auto&... parts) { (scope.watch_argument(position++, parts), ...); }, watched);
      scope.watch_weights();
      ValueAndGrad<typename detail::SplitResult<R>::Aux> result;
      if constexpr (std::is_same_v<R, Tensor>) {
        result.value = std::apply(function, watched);
      } else {
        std::tie(result.value, result.aux) = std::apply(function, watched);
      }
      scope.finish(result.value, cotangent, result.arguments, result.weights);
      return result;
    }
  };

  Core core_;
  std::optional<graph::Jit<Core>> jit_;
};

/// `function` returns a scalar, or std::pair(scalar, aux) ("has_aux"): aux is passed through without differentiation.
template <class Fn>
ValueAndGradFunction<std::decay_t<Fn>> value_and_grad(Fn&& function, GradOptions options = {},
                                                      Location where = Location::current()) {
  return {std::forward<Fn>(function), std::move(options), where};
}

/// The gradient with respect to argument `position` alone.
template <class Fn>
auto grad(Fn&& function, int position = 0, Location where = Location::current()) {
  return [inner = value_and_grad(std::forward<Fn>(function), GradOptions{{position}, {}}, where)](
             const auto&... arguments) mutable { return inner(arguments...).arguments[0]; };
}

/// The gradients with respect to several arguments, in the order of `positions`.
template <class Fn>
auto grad(Fn&& function, std::vector<int> positions, Location where = Location::current()) {
  return [inner = value_and_grad(std::forward<Fn>(function), GradOptions{std::move(positions), {}}, where)](
             const auto&... arguments) mutable { return inner(arguments...).arguments; };
}

}  // namespace diptych
