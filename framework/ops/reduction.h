#pragma once

#include <optional>

#include "framework/core/tensor.h"

/// Reductions over axes (negative: from the end; none: all of them; one given twice is a ShapeError). Their order of
/// operations is fixed, see kernels/reduction.h. With `keepdims` a reduced axis stays, with length 1.
namespace diptych {

/// Integers and bool are summed as i64. Of no element: 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// Integers and bool as f32. Of no element: NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// The product; integers and bool as i64. Of no element: 1.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// NaN if any element is; throws ShapeError where there is no element to take. Equal largest elements share the
/// gradient.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// bool: whether any, or every, element differs from 0 (NaN does). Of no element: false, and true.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());

/// i64: the first index of the largest element along `axis`, or, without an axis, in x flattened. NaN counts as the
/// largest (and the smallest). Throws ShapeError where there is no element to take.
Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keepdims = false,
              Location where = Location::current());
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keepdims = false,
              Location where = Location::current());

/// sum((x - mean(x))^2) / max(n - correction, 0), in two passes, f32 accumulated in f64; integers and bool as f32.
/// Throws ShapeError for a negative or infinite correction.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false,
           Location where = Location::current());
/// sqrt(var(x)). Its gradient is 0 where all elements are equal.
Tensor std(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false,
           Location where = Location::current());
/// log(sum(exp(x))), without its overflow; -inf of no element, or where all are -inf (then with gradient 0).
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// (sum |x|^p)^(1/p), p > 0; p infinite: the largest |x|. The gradient is 0 where the norm is. Integers and bool as
/// f32. Throws ShapeError for other p.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdims = false,
            Location where = Location::current());

/// Running sums along an axis, one after the other in order. `exclusive`: without the element itself; `reverse`: from
/// the end. Integers and bool as i64.
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
              Location where = Location::current());

}  // namespace diptych
