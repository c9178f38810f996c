#pragma once

#include <algorithm>

#include "framework/kernels/correlation.h"
#include "framework/kernels/matrix_product.h"

/// The ways of correlate(), of results that aren't empty.
namespace diptych::kernels {

/// Outputs that are computed together.
inline constexpr std::int64_t kMostOutputs = 1024;

/// So many that the working set of a piece (a block of the source's values and all sums) stays in the L2 cache or close
/// to it. More positions read the weights, which are larger, less often.
template <class T>
std::int64_t positions_of_piece(std::int64_t outputs) {
  constexpr std::int64_t kCached = (std::int64_t{1280} << 10) / static_cast<std::int64_t>(sizeof(T));
  return std::clamp<std::int64_t>(kCached / (outputs + kSumBlock) / 16 * 16, 48, 512);
}

/// Vectors of positions.
template <class T>
void correlate_positions(const Correlation<T>& correlation);

/// Vectors of outputs; the weights are packed.
template <class T>
void correlate_outputs(const Correlation<T>& correlation);

/// Whether each position reads the one value of a channel that stands where it does, and planes of the source and of
/// the result are dense, or whole rows of such.
template <class T>
bool is_pointwise(const Correlation<T>& correlation);
/// Products of whole planes, where they lie.
template <class T>
void correlate_in_place(const Correlation<T>& correlation);

}  // namespace diptych::kernels
