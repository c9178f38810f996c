// Reading and writing at indices.

#include "framework/ops/indexing.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/normalise_indices.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// Indices into axes of these lengths, as ONNX counts them: the engine's ops refuse negative ones. Known indices are
/// converted here, once.
Tensor from_start(const Value& indices, const Dims& lengths, Location location) {
  const KnownScope scope(indices.known);
  return normalise_indices(indices.tensor, lengths, true, location);
}

Translation gather_slices(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const int place = axis_of(axis, x.rank());
    out[0].tensor = index_select(x, place, from_start(in[1], {x.shape()[place]}, where), where);
  }};
}

Translation gather_elements(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const int place = axis_of(axis, x.rank());
    out[0].tensor = gather(x, place, from_start(in[1], {x.shape()[place]}, where), where);
  }};
}

using Scatter = Tensor (*)(const Tensor&, int, const Tensor&, const Tensor&, Location);

/// How scattered elements meet the existing ones.
Scatter scatter_of(NodeView& node) {
  const std::string reduction = node.opset() < 16 ? "none" : node.text("reduction", "none");
  constexpr std::pair<const char*, Scatter> kKinds[] = {
      {"none", scatter}, {"add", scatter_add}, {"mul", scatter_mul}, {"max", scatter_max}, {"min", scatter_min}};
  for (const auto& [name, function] : kKinds) {
    if (reduction == name) {
      return function;
    }
  }
  node.refuse(fmt::format("the engine can't scatter with reduction {}", quote(reduction)));
}

Translation scatter_elements(NodeView& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const Scatter scatter_into = scatter_of(node);
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const int place = axis_of(axis, x.rank());
    const Tensor index = from_start(in[1], {x.shape()[place]}, where);
    out[0].tensor = scatter_into(x, place, index, in[2].tensor, where);
  }};
}

/// The last axis of `indices` holds places in axes `first`, first + 1, ... of a tensor; here they become numbers in
/// these axes merged into one. [..., k] -> [...]
Tensor linear_index(const Value& indices, const Shape& shape, int first, Location where) {
  const int last = indices.tensor.rank() - 1;
  const auto depth = static_cast<int>(indices.tensor.shape()[last]);
  Dims lengths;
  for (int j = 0; j < depth; ++j) {
    lengths.push_back(shape[first + j]);
  }
  const KnownScope scope(indices.known);
  const Tensor places = normalise_indices(indices.tensor, lengths, true, where);
  Tensor total = select(places, last, 0, where);
  for (int j = 1; j < depth; ++j) {
    total = add(times(total, static_cast<double>(lengths[j]), where), select(places, last, j, where), where);
  }
  return total;
}

std::int64_t product_of(const Shape& shape, int first, int last) {
  std::int64_t result = 1;
  for (int i = first; i < last; ++i) {
    result *= shape[i];
  }
  return result;
}

void check_depth(const Tensor& x, const Tensor& indices, std::int64_t batch) {
  const bool fits =
      indices.rank() > batch && batch >= 0 && indices.shape().back() >= 1 && indices.shape().back() + batch <= x.rank();
  if (!fits) {
    throw ShapeError(fmt::format("indices {} into {}", to_string(indices.type()), to_string(x.type())));
  }
}

Translation gather_nd(NodeView& node) {
  const std::int64_t batch = node.opset() < 12 ? 0 : node.integer("batch_dims", 0);
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Shape& xs = x.shape();
    const Shape& is = in[1].tensor.shape();
    check_depth(x, in[1].tensor, batch);
    const int b = static_cast<int>(batch);
    const int depth = static_cast<int>(is.back());
    Tensor index = linear_index(in[1], xs, b, where);  // [batch..., rest...]
    const std::int64_t batches = product_of(xs, 0, b);
    const std::int64_t places = product_of(xs, b, b + depth);
    if (b > 0) {
      Shape lead = Shape::filled(index.rank(), 1);
      for (int i = 0; i < b; ++i) {
        lead[i] = is[i];
        if (is[i] != xs[i]) {
          throw ShapeError(fmt::format("batches of {} and {}", to_string(in[1].tensor.type()), to_string(x.type())));
        }
      }
      const Tensor starts =
          mul(arange(static_cast<double>(batches), DType::int64, where), Tensor::scalar(places), where);
      index = add(index, reshape(starts, lead, where), where);
    }
    Shape rows{batches * places};
    for (int i = b + depth; i < x.rank(); ++i) {
      rows.push_back(xs[i]);
    }
    out[0].tensor = index_select(reshape(x, rows, where), 0, index, where);
  }};
}

Translation scatter_nd(NodeView& node) {
  const Scatter scatter_into = scatter_of(node);
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    check_depth(x, in[1].tensor, 0);
    const int depth = static_cast<int>(in[1].tensor.shape().back());
    const Tensor index = linear_index(in[1], x.shape(), 0, where);
    const std::int64_t places = product_of(x.shape(), 0, depth);
    const std::int64_t columns = product_of(x.shape(), depth, x.rank());
    const Tensor rows = reshape(x, {places, columns}, where);
    const Tensor updates = reshape(in[2].tensor, {index.numel(), columns}, where);
    const Tensor flat = reshape(index, {index.numel()}, where);
    const Tensor result =
        scatter_into == scatter_add
            ? index_add(rows, 0, flat, updates, where)
            : scatter_into(rows, 0,
                           contiguous(expand(reshape(flat, {index.numel(), 1}, where), updates.shape(), where), where),
                           updates, where);
    out[0].tensor = reshape(result, x.shape(), where);
  }};
}

/// A cache with rows of `update` from an index of each sample on: 0, or given. In circular mode they go on at the
/// start.
Translation tensor_scatter(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -2);
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    node.malformed("its mode isn't one of ONNX's");
  }
  node.check_inputs(2, 3);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& cache = in[0].tensor;
    const Tensor& update = in[1].tensor;
    const int place = axis_of(axis, cache.rank());
    Shape wanted = update.shape();
    const bool has_room = place > 0 && update.rank() == cache.rank() && update.shape()[place] <= cache.shape()[place];
    if (has_room) {
      wanted[place] = cache.shape()[place];
    }
    if (!has_room || wanted != cache.shape()) {
      throw ShapeError(
          fmt::format("{} into {} along axis {}", to_string(update.type()), to_string(cache.type()), axis));
    }
    Shape along = Shape::filled(cache.rank(), 1);
    along[place] = update.shape()[place];
    Tensor index = reshape(arange(static_cast<double>(update.shape()[place]), DType::int64, where), along, where);
    if (const Tensor first = optional_input(in, 2); first.defined()) {
      if (first.shape() != Shape{cache.shape()[0]}) {
        throw ShapeError(fmt::format("write_indices {} for {}", to_string(first.type()), to_string(cache.type())));
      }
      Shape batch = Shape::filled(cache.rank(), 1);
      batch[0] = cache.shape()[0];
      index = add(reshape(cast(first, DType::int64, where), batch, where), index, where);
    }
    if (mode == "circular") {
      index = remainder(index, scalar_like(index, static_cast<double>(cache.shape()[place]), where), where);
    }
    out[0].tensor = scatter(cache, place, contiguous(expand(index, update.shape(), where), where), update, where);
  }};
}

/// The same as i64, where indices outside of [-depth, depth) stay outside of [0, depth).
Tensor from_start_or_outside(const Value& indices, std::int64_t depth, Location location) {
  const KnownScope scope(indices.known);
  const Tensor wide = cast(indices.tensor, DType::int64, location);
  const Tensor is_negative = less(wide, scalar_like(wide, 0, location), location);
  const bool is_signed = indices.tensor.dtype() != DType::uint64;  // its greatest are negative now, and outside
  return where(is_negative,
               is_signed ? plus(wide, static_cast<double>(depth), location) : scalar_like(wide, -1, location), wide,
               location);
}

/// A row whose index is outside of [-depth, depth) has no 1.
Translation one_hot_of(NodeView& node) {
  const std::int64_t axis = node.integer("axis", -1);
  node.check_inputs(3, 3);
  return {[=](Inputs in, Outputs out, Location location) {
            const Tensor& indices = in[0].tensor;
            const double wanted = host_real(in[1].tensor);
            const std::int64_t depth = wanted >= 1 && wanted < 1e15 ? static_cast<std::int64_t>(wanted) : 0;
            const Tensor& values = in[2].tensor;
            if (depth < 1 || values.shape() != Shape{2}) {
              throw ShapeError(fmt::format("a depth of {} and values {}", wanted, to_string(values.type())));
            }
            const int place = axis_of(axis, indices.rank() + 1);
            Shape column;
            Shape row = Shape::filled(indices.rank() + 1, 1);
            row[place] = depth;
            int next = 0;
            std::vector<std::int64_t> lengths;
            for (int i = 0; i <= indices.rank(); ++i) {
              column.push_back(i == place ? 1 : indices.shape()[next++]);
              lengths.push_back(i == place ? depth : column[i]);
            }
            checked_shape(lengths, values.dtype());
            const Tensor wide = from_start_or_outside(in[0], depth, location);
            const Tensor places = arange(static_cast<double>(depth), DType::int64, location);
            const Tensor hot = equal(reshape(wide, column, location), reshape(places, row, location), location);
            out[0].tensor = where(hot, select(values, 0, 1, location), select(values, 0, 0, location), location);
          },
          {1}};
}

/// The number of results depends on the elements.
Translation non_zero(NodeView& node) {
  node.check_inputs(1, 1);
  return {[](Inputs in, Outputs out, Location /*where*/) {
            const Tensor& x = in[0].tensor;
            const std::vector<double> values = x.to_vector<double>();
            const Strides strides = contiguous_strides(x.shape());
            std::vector<std::int64_t> found;
            for (std::size_t i = 0; i < values.size(); ++i) {
              if (values[i] != 0) {
                found.push_back(static_cast<std::int64_t>(i));
              }
            }
            std::vector<std::int64_t> places;
            for (int axis = 0; axis < x.rank(); ++axis) {
              for (const std::int64_t place : found) {
                places.push_back(place / strides[axis] % x.shape()[axis]);
              }
            }
            out[0].tensor = Tensor::from(places, {x.rank(), static_cast<std::int64_t>(found.size())});
          },
          {0}};
}

Translation compress(NodeView& node) {
  const bool has_axis = node.has("axis");
  const std::int64_t axis = node.integer("axis", 0);
  node.check_inputs(2, 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor x = has_axis ? in[0].tensor : reshape(in[0].tensor, {in[0].tensor.numel()}, where);
            const int place = axis_of(axis, x.rank());
            const std::vector<double> condition = in[1].tensor.to_vector<double>();
            std::vector<std::int64_t> kept;
            for (std::size_t i = 0; i < condition.size(); ++i) {
              if (condition[i] != 0) {
                kept.push_back(static_cast<std::int64_t>(i));
              }
            }
            out[0].tensor = index_select(x, place, integers(kept), where);
          },
          {1}};
}

}  // namespace

void add_indexing(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits = "") {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("Compress", 9, compress, "of a known condition");
  op("Gather", 1, gather_slices);
  op("GatherElements", 11, gather_elements);
  op("GatherND", 11, gather_nd);
  op("NonZero", 9, non_zero, "of a known tensor");
  op("OneHot", 9, one_hot_of, "of a known depth");
  op("Scatter", 9, scatter_elements);
  op("ScatterElements", 11, scatter_elements);
  op("ScatterND", 11, scatter_nd);
  op("TensorScatter", 24, tensor_scatter);
}

}  // namespace diptych::onnx
