#pragma once

#include "framework/core/tensor.h"

/// Tensors from nothing.
namespace diptych {

Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Location where = Location::current());
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Location where = Location::current());
Tensor ones(const Shape& shape, DType dtype = DType::float32, Location where = Location::current());
/// The type of `like`; the second form with another shape.
Tensor full_like(const Tensor& like, double value, Location where = Location::current());
Tensor full_like(const Tensor& like, double value, const Shape& shape, Location where = Location::current());

}  // namespace diptych
