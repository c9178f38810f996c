#pragma once

#include <optional>

#include "framework/core/tensor.h"

/// Reductions over axes (negative: from the end; none: all of them; one given twice: ShapeError). The order of
/// operations is fixed; see kernels/reduction.h. With `keepdims` a reduced axis stays, with length 1.
namespace diptych {

/// Integers and bool are summed as i64. 0 if there are no elements.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// Integers and bool as f32. NaN if there are no elements.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// The product; integers and bool as i64. 1 if there are no elements.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// NaN if any element is; throws ShapeError if there are no elements. Equal largest elements share the gradient.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// bool: whether any, or every, element differs from 0 (NaN does). Without elements: false and true.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());

/// i64: the first index of the largest element along `axis`, or, without an axis, in x flattened. NaN counts as the
/// largest (and the smallest). Throws ShapeError if there are no elements.
Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keepdims = false,
              Location where = Location::current());
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keepdims = false,
              Location where = Location::current());

/// sum((x - mean(x))^2) / max(n - correction, 0), in two passes, with f32 accumulated in f64; integers and bool as f32.
/// Throws ShapeError for a negative or infinite correction.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false,
           Location where = Location::current());
/// sqrt(var(x)). Its gradient is 0 where all elements are equal.
Tensor std(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false,
           Location where = Location::current());
/// log(sum(exp(x))) without the overflow; -inf without elements, or if all are -inf (then with gradient 0).
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// (sum |x|^p)^(1/p), p > 0; for infinite p the largest |x|. The gradient is 0 where the norm is. Integers and bool as
/// f32. Throws ShapeError for other p.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdims = false,
            Location where = Location::current());

/// Running sums along an axis, added one after the other. `exclusive`: without the element itself; `reverse`: from the
/// end. Integers and bool as i64.
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
              Location where = Location::current());

}  // namespace diptych
