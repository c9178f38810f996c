// Reductions, positions of extremes, running sums, sorting.

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/shape.h"
#include "framework/ops/sorting.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor&, const Axes&, bool, Location);

/// The result has the input's type: ONNX promotes nothing.
template <Reduce op>
Tensor of_its_type(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return cast(op(x, axes, keepdims, where), x.dtype(), where);
}

/// The least, or the greatest, value of a type.
Tensor limit_of(DType dtype, bool least, Location where) {
  if (is_floating(dtype)) {
    return full({}, least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity(), dtype,
                where);
  }
  return visit(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      return Tensor::from({least ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max()}, {});
    } else {
      return Tensor();  // not reached: floating types are above
    }
  });
}

/// ONNX has an extreme of no elements too: what any element would replace.
template <Reduce op, Reduce of_booleans, bool of_none_is_least>
Tensor extreme(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  if (x.dtype() == DType::boolean) {
    return of_booleans(x, axes, keepdims, where);
  }
  if (x.numel() > 0) {
    return op(x, axes, keepdims, where);
  }
  const Shape shape = any(x, axes, keepdims, where).shape();
  return expand(limit_of(x.dtype(), of_none_is_least, where), shape, where);
}
constexpr Reduce largest = extreme<max, any, true>;
constexpr Reduce smallest = extreme<min, all, false>;
Tensor l1(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return sum(abs(x, where), axes, keepdims, where);
}
Tensor sum_of_squares(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return sum(mul(x, x, where), axes, keepdims, where);
}
Tensor l2(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  if (is_floating(x.dtype())) {
    return norm(x, 2, axes, keepdims, where);
  }
  return sqrt(cast(sum_of_squares(x, axes, keepdims, where), DType::float64, where), where);
}
/// Integers are averaged exactly, rounding towards zero.
Tensor average(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  if (is_floating(x.dtype())) {
    return mean(x, axes, keepdims, where);
  }
  const Tensor total = sum(x, axes, keepdims, where);
  const std::int64_t count = total.numel() > 0 ? x.numel() / total.numel() : 1;
  return quotient(total, Tensor::scalar(count), where);
}
Tensor log_of_sum(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return log(sum(x, axes, keepdims, where), where);
}
Tensor log_of_sum_of_exp(const Tensor& x, const Axes& axes, bool keepdims, Location where) {
  return logsumexp(x, axes, keepdims, where);
}

/// Axes are an input from opset 18 on (for ReduceSum from 13 on), and an attribute before.
template <Reduce op, int first_with_input = 18>
Translation reduction(NodeView& node) {
  const bool keepdims = node.integer("keepdims", 1) != 0;
  const bool from_input = node.opset() >= first_with_input;
  const bool none_is_none = from_input && node.integer("noop_with_empty_axes", 0) != 0;
  const std::vector<std::int64_t> fixed =
      from_input ? std::vector<std::int64_t>() : node.integers("axes").value_or(std::vector<std::int64_t>());
  node.check_inputs(1, from_input ? 2 : 1);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            std::vector<std::int64_t> axes = fixed;
            if (in.size() > 1 && in[1].tensor.defined()) {
              axes = host_integers(in[1].tensor);
            }
            if (axes.empty() && none_is_none) {
              // Without axes: equivalent to a reduction over an axis of length 1.
              Shape longer = x.shape();
              longer.push_back(1);
              out[0].tensor = reshape(op(reshape(x, longer, where), {x.rank()}, false, where), x.shape(), where);
              return;
            }
            Axes places = axes_of(axes, x.rank());
            if (places.empty() && x.rank() == 0) {
              out[0].tensor = reshape(op(reshape(x, {1}, where), {0}, false, where), {}, where);
              return;
            }
            out[0].tensor = op(x, places, keepdims, where);
          },
          {1}};
}

template <bool largest_wins>
Translation position(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const bool keepdims = node.integer("keepdims", 1) != 0;
  const bool last = node.integer("select_last_index", 0) != 0;
  return unary(node, [=](const Tensor& x, Location where) {
    const int place = axis_of(axis, x.rank());
    const auto find = [&](const Tensor& t) {
      return largest_wins ? argmax(t, place, keepdims, where) : argmin(t, place, keepdims, where);
    };
    if (!last) {
      return find(x);
    }
    const Tensor from_end = find(flip(x, {place}, where));
    return sub(scalar_like(from_end, static_cast<double>(x.shape()[place] - 1), where), from_end, where);
  });
}

Translation running_sum(NodeView& node) {
  const bool exclusive = node.integer("exclusive", 0) != 0;
  const bool reverse = node.integer("reverse", 0) != 0;
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const int axis = axis_of(host_integer(in[1].tensor), x.rank());
            out[0].tensor = cast(cumsum(x, axis, exclusive, reverse, where), x.dtype(), where);
          },
          {1}};
}

/// k is an attribute before opset 10.
Translation top(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const bool largest_first = node.opset() < 11 || node.integer("largest", 1) != 0;
  if (node.opset() >= 11) {
    node.integer("sorted", 1);  // sorted is one of the orders that the value 0 allows
  }
  const std::int64_t fixed = node.opset() < 10 ? node.integer("k", 0) : -1;
  node.check_inputs(fixed < 0 ? 2 : 1, fixed < 0 ? 2 : 1);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            const std::int64_t k = fixed < 0 ? host_integer(in[1].tensor) : fixed;
            const auto [values, indices] = topk(x, k, axis_of(axis, x.rank()), largest_first, where);
            out[0].tensor = values;
            if (out.size() > 1) {
              out[1].tensor = indices;
            }
          },
          {1}};
}

}  // namespace

void add_reductions(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("ArgMax", 1, position<true>);
  op("ArgMin", 1, position<false>);
  op("CumSum", 11, running_sum);
  op("ReduceL1", 1, reduction<of_its_type<l1>>);
  op("ReduceL2", 1, reduction<of_its_type<l2>>);
  op("ReduceLogSum", 1, reduction<of_its_type<log_of_sum>>);
  op("ReduceLogSumExp", 1, reduction<of_its_type<log_of_sum_of_exp>>);
  op("ReduceMax", 1, reduction<largest>);
  op("ReduceMean", 1, reduction<of_its_type<average>>);
  op("ReduceMin", 1, reduction<smallest>);
  op("ReduceProd", 1, reduction<of_its_type<prod>>);
  op("ReduceSum", 1, reduction<of_its_type<sum>, 13>);
  op("ReduceSumSquare", 1, reduction<of_its_type<sum_of_squares>>);
  op("TopK", 1, top);
}

}  // namespace diptych::onnx
