#include "framework/core/lengths.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/core/tensor_body.h"

namespace diptych {
namespace {

constexpr const char* kHint = "check the lengths";

/// Sets strides and numel; false for a type of which no tensor can have elements of its own. One pass, because eager
/// does it for every result.
bool lay_out(TensorBody* body) {
  const Shape& shape = body->type.shape;
  std::int64_t places = 1;  // empty axes count as one, as strides are products of the other lengths
  bool is_empty = false;
  bool wraps = false;
  body->strides = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const std::int64_t length = shape[i];
    body->strides[i] = is_empty ? 0 : places;
    is_empty |= length == 0;
    wraps |= __builtin_mul_overflow(places, length == 0 ? 1 : length, &places) | (length < 0);
  }
  body->numel = is_empty ? 0 : places;
  return !wraps && places <= kMostElements;
}

/// The product of the lengths, of which empty axes count as one; no value if one is negative, or above `most`.
std::optional<std::int64_t> places_of(const Shape& shape, std::int64_t most) {
  std::int64_t places = 1;
  for (const std::int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(places, length == 0 ? 1 : length, &places) || places > most) {
      return std::nullopt;
    }
  }
  return places;
}

void allocate_elements(TensorBody* body) {
  body->contiguous = true;
  body->storage = allocate_storage(static_cast<std::size_t>(body->numel) * size_of(body->type.dtype));
  body->data = body->storage->data();
}

std::string refusal_of(const TensorType& type, std::string_view op) {
  return fmt::format("{}: {}", op, describe_size(type));
}

}  // namespace

std::optional<std::uint64_t> dense_bytes(const TensorType& type) {
  const auto places = places_of(type.shape, kMostElements);
  if (!places) {
    return std::nullopt;
  }
  return type.shape.contains(0) ? 0 : static_cast<std::uint64_t>(*places) * size_of(type.dtype);
}

double rough_bytes(const TensorType& type) {
  double bytes = static_cast<double>(size_of(type.dtype));
  for (const std::int64_t length : type.shape) {
    bytes *= static_cast<double>(std::max<std::int64_t>(length, 1));
  }
  return bytes;
}

std::string describe_size(const TensorType& type) {
  const bool is_negative =
      std::any_of(type.shape.begin(), type.shape.end(), [](std::int64_t length) { return length < 0; });
  if (is_negative) {
    return fmt::format("{} has a negative length", to_string(type));
  }
  return fmt::format("{} takes {:.3g} bytes{}", to_string(type), rough_bytes(type),
                     type.shape.contains(0) ? ", its empty axes aside" : "");
}

void check_countable(const TensorType& type, std::string_view op, Location where) {
  constexpr std::int64_t kMostOfAView = INT64_MAX / 16;  // leaves room for the size of an element
  if (!places_of(type.shape, kMostOfAView)) [[unlikely]] {
    throw ShapeError(refusal_of(type, op), where, kHint);
  }
}

void allocate_dense(TensorBody* body, const char* op, Location where) {
  if (!lay_out(body)) [[unlikely]] {
    throw ShapeError(refusal_of(body->type, op), where, kHint);
  }
  allocate_elements(body);
}

void allocate_dense(TensorBody* body) {
  if (!lay_out(body)) [[unlikely]] {
    throw ShapeError(fmt::format("a tensor {}; {}", describe_size(body->type), kHint));
  }
  allocate_elements(body);
}

}  // namespace diptych
