#pragma once

#include <vector>

#include "framework/core/tensor.h"

/// Ops that move elements into a new tensor. Axes may be negative (from the end).
namespace diptych {

/// The tensors one after the other along an axis; the other lengths must be equal. Takes one or more tensors.
Tensor concat(const std::vector<Tensor>& tensors, int axis = 0, Location where = Location::current());
/// The tensors, which have equal shapes, along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0, Location where = Location::current());

/// The value outside the input: a constant; the axis mirrored at its end elements, which are not repeated ("reflect");
/// or its end elements repeated ("edge", PyTorch's replicate).
enum class PadMode : std::uint8_t { constant, reflect, edge };
struct PadWidth {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
/// Adds elements before and after each axis, one width per axis as in NumPy. Negative widths are refused (slice()
/// cuts); reflect needs widths below the length, edge an axis that isn't empty.
Tensor pad(const Tensor& x, const std::vector<PadWidth>& widths, PadMode mode = PadMode::constant, double value = 0,
           Location where = Location::current());

/// repeats[i] copies along axis i, aligned from the right; a longer list adds leading axes.
Tensor tile(const Tensor& x, const Shape& repeats, Location where = Location::current());
/// Reverses the order of the elements along the axes. Copies.
Tensor flip(const Tensor& x, const Axes& axes, Location where = Location::current());
/// Element i of axes[k] moves to (i + shifts[k]) mod length.
Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes, Location where = Location::current());

/// `base` with slice(base, axis, start, stop, step) replaced by `value`, which broadcasts to it and takes the type of
/// `base`. step > 0.
Tensor slice_update(const Tensor& base, const Tensor& value, int axis, std::int64_t start, std::int64_t stop,
                    std::int64_t step = 1, Location where = Location::current());

/// The lower (upper) triangle of the last two axes, 0 elsewhere. Diagonal k > 0 lies above the main one.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0, Location where = Location::current());
Tensor triu(const Tensor& x, std::int64_t diagonal = 0, Location where = Location::current());

}  // namespace diptych
