#pragma once

#include "framework/core/tensor.h"

/// For formats whose indices may count from the end of an axis, which those of the engine's ops (indexing.h) don't.
namespace diptych {

/// Indices counted from the start: i + length for i < 0, unless `from_end` is false. One length for all, or one for
/// each place along the last axis. Throws an Error that names the first index outside [-length, length), or [0,
/// length).
Tensor normalise_indices(const Tensor& indices, const Dims& lengths, bool from_end = true,
                         Location where = Location::current());

}  // namespace diptych
