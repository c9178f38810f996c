#pragma once

#include <optional>

#include "framework/core/tensor.h"

/// Tensors made without inputs. Numbers become elements as with cast(): integers truncate and saturate. Throws
/// ShapeError for a negative length, and above a tebibyte.
namespace diptych {

Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Location where = Location::current());
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Location where = Location::current());
Tensor ones(const Shape& shape, DType dtype = DType::float32, Location where = Location::current());
/// With the type of `like`; the second form takes another shape.
Tensor full_like(const Tensor& like, double value, Location where = Location::current());
Tensor full_like(const Tensor& like, double value, const Shape& shape, Location where = Location::current());
Tensor zeros_like(const Tensor& like, Location where = Location::current());
Tensor ones_like(const Tensor& like, Location where = Location::current());

/// start, start + step, ... before stop (in double precision, so whole numbers are exact up to 2^53); empty if stop is
/// on the wrong side. The type is i64 if start and step are whole, else f32, unless it is given. Throws Error unless
/// all are finite and step isn't 0.
Tensor arange(double start, double stop, double step = 1, std::optional<DType> dtype = {},
              Location where = Location::current());
/// 0, 1, ... before stop.
Tensor arange(double stop, std::optional<DType> dtype = {}, Location where = Location::current());
/// `count` numbers from start to stop, both included and exact.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::float32,
                Location where = Location::current());
/// [rows, columns] with ones on the diagonal.
Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype = DType::float32, Location where = Location::current());
Tensor eye(std::int64_t rows, DType dtype = DType::float32, Location where = Location::current());

}  // namespace diptych
