#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/tensor.h"

/// Sizes of tensors whose lengths are from outside: files, attributes and arguments may have any number. All memory for
/// elements is asked for with a size from here, so that no product wraps.
namespace diptych {

/// Of a tensor with elements of its own. 2^44 of the largest elements are all that an address of x86-64 reaches; a
/// view may show more, because it repeats them.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 44U;

/// The bytes of the elements, if they are dense; no value if a length is negative, or for more than kMostElements,
/// where empty axes count as one element.
std::optional<std::uint64_t> dense_bytes(const TensorType& type);

/// The same roughly, whatever the lengths; empty axes count as one, as tables and loops are made for each.
double rough_bytes(const TensorType& type);

/// "f32[4611686018427388904] takes 1.84e+19 bytes", "f32[2,-3] has a negative length"
std::string describe_size(const TensorType& type);

/// Throws ShapeError, with the size, for a type that not even a view can have: a negative length, or so many elements
/// that their bytes could not be counted.
void check_countable(const TensorType& type, std::string_view op, Location where);

/// allocate_dense() (tensor_body.h), whose error names the op and the user's line.
void allocate_dense(TensorBody* body, const char* op, Location where);

}  // namespace diptych
