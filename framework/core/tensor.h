#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "framework/core/dims.h"
#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/core/reference.h"

namespace diptych {

/// What shape inference works on, and the type of a value in a graph: "f32[2,3]".
struct TensorType {
  DType dtype = DType::float32;
  Shape shape;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

std::string to_string(const TensorType& type);

/// The bytes of its elements, if dense.
inline std::size_t bytes_of(const TensorType& type) {
  return static_cast<std::size_t>(type.shape.product()) * size_of(type.dtype);
}

struct TensorBody;
void destroy(TensorBody* body) noexcept;

/// A handle to an n-dimensional array: cheap to copy, and copies share the elements. Ops never change elements; the
/// only mutable thing is a Variable. While a graph is captured a tensor may be *traced*: it then has a type but no
/// elements, and reading them throws CaptureError.
class Tensor {
 public:
  Tensor() = default;

  /// Copies `values`, row-major. Throws ShapeError unless their number matches `shape`.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Location where = Location::current());
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Location where = Location::current());
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape, Location where = Location::current()) {
    return from(std::span<const T>(values.begin(), values.size()), shape, where);
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  static Tensor scalar(T value) { return from(std::span<const T>(&value, 1), Shape{}); }
  /// Dense and uninitialised.
  static Tensor empty(DType dtype, const Shape& shape);

  bool defined() const { return static_cast<bool>(body_); }
  explicit operator bool() const { return defined(); }

  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  const Strides& strides() const;
  int rank() const { return shape().rank(); }
  std::int64_t numel() const;
  bool is_contiguous() const;
  bool is_traced() const;
  bool requires_grad() const;

  /// A pointer to the first element, for reading elements in place; requires the exact type and a dense layout. Throws
  /// DTypeError, ShapeError, CaptureError (traced).
  template <class T>
  const T* data(Location where = Location::current()) const;
  /// For filling a fresh tensor before it is shared.
  template <class T>
  T* mutable_data(Location where = Location::current());

  /// The only element, converted. Throws ShapeError unless numel() is 1; CaptureError (traced).
  double item(Location where = Location::current()) const;
  /// All elements, row-major, converted to T.
  template <class T>
  std::vector<T> to_vector(Location where = Location::current()) const;

  /// The internal representation of the tensor; see tensor_body.h.
  TensorBody* body() const { return body_.get(); }
  static Tensor adopt(TensorBody* body) {
    Tensor tensor;
    tensor.body_ = Reference<TensorBody>::adopt(body);
    return tensor;
  }
  static Tensor share(TensorBody* body) {
    Tensor tensor;
    tensor.body_ = Reference<TensorBody>::share(body);
    return tensor;
  }

 private:
  Reference<TensorBody> body_;
};

/// Equal type and bits: 0 differs from -0. Any NaN equals any NaN: sign and payload are not part of the numerics
/// contract, because neither IEEE 754 nor C++ specifies which one an operation gives.
bool bitwise_equal(const Tensor& a, const Tensor& b);

/// "f32[2,2] {1, 2, 3, 4}", shortened above 16 elements.
std::string to_string(const Tensor& tensor);

}  // namespace diptych
