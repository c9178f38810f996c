#include "framework/core/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/core/lengths.h"
#include "framework/core/strided_copy.h"
#include "framework/core/tensor_body.h"

namespace diptych {

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_string(type.shape));
}

TensorBody* new_body() {
  static_assert(sizeof(TensorBody) <= 256);
  const allocator::Block block = allocator::allocate(sizeof(TensorBody));
  return ::new (block.data) TensorBody;
}

void destroy(TensorBody* body) noexcept {
  body->~TensorBody();
  allocator::release({body, allocator::size_class_of(sizeof(TensorBody))});
}

Tensor detached_alias(const Tensor& tensor) {
  const TensorBody& source = *tensor.body();
  TensorBody* alias = new_body();
  alias->contiguous = source.contiguous;
  alias->is_traced = source.is_traced;
  alias->is_pending = source.is_pending;
  alias->trace_value = source.trace_value;
  alias->trace_serial = source.trace_serial;
  alias->data = source.data;
  alias->numel = source.numel;
  alias->storage = source.storage;
  alias->type = source.type;
  alias->strides = source.strides;
  return Tensor::adopt(alias);
}

Tensor dense_copy(const Tensor& tensor) {
  const TensorBody& source = *tensor.body();
  make_ready(source);
  Tensor dense = Tensor::empty(source.type.dtype, source.type.shape);
  kernels::strided_copy(source.type.shape, size_of(source.type.dtype), source.data, source.strides, dense.body()->data,
                        dense.body()->strides);
  return dense;
}

namespace {
void note_read(const TensorBody& body, const char* what, Location where) {
  if (thread_context.interpreter != nullptr) {
    thread_context.interpreter->note_read(body, what, where);
  }
}
}  // namespace

void fail_traced_read(const TensorBody& body, const char* what, Location where) {
  const Tracer* const tracer = thread_context.tracer();
  const std::string origin = tracer != nullptr ? tracer->describe(body) : std::string(kEndedCapture);
  throw CaptureError(
      fmt::format("{}: the tensor {} is traced (it stands for the result of {}) and has no elements yet", what,
                  to_string(body.type), origin),
      where,
      "host code that depends on elements can't be captured: return it and read it outside the captured function, "
      "choose "
      "values with where(), branch with cond(), loop with while_loop() or scan(), show it with debug::print()");
}

std::int64_t element_offset(const TensorBody& body, std::int64_t index) {
  std::int64_t offset = 0;
  for (int i = body.type.shape.rank() - 1; i >= 0; --i) {
    offset += index % body.type.shape[i] * body.strides[i];
    index /= body.type.shape[i];
  }
  return offset;
}

namespace {

const TensorBody& checked(const Reference<TensorBody>& body) {
  if (!body) {
    throw Error("an undefined tensor was used; assign a value to it first");
  }
  return *body;
}

void check_element_count(std::size_t count, const TensorType& type, Location where) {
  check_countable(type, "from", where);
  if (static_cast<std::int64_t>(count) != type.shape.product()) {
    throw ShapeError(fmt::format("from: {} values for shape {}, which has {} elements", count, to_string(type.shape),
                                 type.shape.product()),
                     where, "give one value per element, row-major");
  }
}

}  // namespace

Tensor Tensor::empty(DType dtype, const Shape& shape) {
  TensorBody* body = new_body();
  Tensor tensor = adopt(body);
  body->type.dtype = dtype;
  body->type.shape = shape;
  allocate_dense(body);
  return tensor;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Location where) {
  check_element_count(values.size(), {dtype_of<T>, shape}, where);
  Tensor tensor = empty(dtype_of<T>, shape);
  if (!values.empty()) {
    std::memcpy(tensor.body()->data, values.data(), values.size_bytes());
  }
  return tensor;
}

// Not through a span, because std::vector<bool> has none.
template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape, Location where) {
  check_element_count(values.size(), {dtype_of<T>, shape}, where);
  Tensor tensor = empty(dtype_of<T>, shape);
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.body()->data));
  return tensor;
}

const TensorType& Tensor::type() const { return checked(body_).type; }
const Strides& Tensor::strides() const { return checked(body_).strides; }
std::int64_t Tensor::numel() const { return checked(body_).numel; }
bool Tensor::is_contiguous() const { return checked(body_).contiguous; }
bool Tensor::is_traced() const { return checked(body_).is_traced; }
bool Tensor::requires_grad() const { return static_cast<bool>(checked(body_).tape); }

template <class T>
const T* Tensor::data(Location where) const {
  const TensorBody& body = checked(body_);
  if (body.is_traced) {
    fail_traced_read(body, "data()", where);
  }
  if (body.type.dtype != dtype_of<T>) {
    throw DTypeError(fmt::format("data: the tensor is {}, not {}", to_string(body.type), name_of(dtype_of<T>)), where,
                     "ask for its own type, or cast it first");
  }
  if (!body.contiguous) {
    throw ShapeError(fmt::format("data: the tensor {} is a strided view", to_string(body.type)), where,
                     "call contiguous() first, or to_vector()");
  }
  note_read(body, "data()", where);
  make_ready(body);
  return static_cast<const T*>(body.data);
}

template <class T>
T* Tensor::mutable_data(Location where) {
  if (checked(body_).storage && !(body_->references.unique() && body_->storage->references.unique())) {
    launches::synchronize();  // a launch may be about to read it
  }
  if (body_->storage) {
    body_->storage->packing.store(0, std::memory_order_relaxed);
  }
  return const_cast<T*>(data<T>(where));
}

double Tensor::item(Location where) const {
  const TensorBody& body = checked(body_);
  if (body.is_traced) {
    fail_traced_read(body, "item()", where);
  }
  if (body.numel != 1) {
    throw ShapeError(fmt::format("item: {} has {} elements, not one", to_string(body.type), body.numel), where,
                     "reduce it first, or use to_vector()");
  }
  note_read(body, "item()", where);
  make_ready(body);
  return visit(body.type.dtype, [&]<class T>() { return static_cast<double>(*static_cast<const T*>(body.data)); });
}

template <class T>
std::vector<T> Tensor::to_vector(Location where) const {
  const TensorBody& body = checked(body_);
  if (body.is_traced) {
    fail_traced_read(body, "to_vector()", where);
  }
  note_read(body, "to_vector()", where);
  make_ready(body);
  if (body.numel > kMostElements) {  // of a view that repeats them
    throw ShapeError(fmt::format("to_vector(): {}", describe_size(body.type)), where, "slice it first");
  }
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(body.numel));
  visit(body.type.dtype, [&]<class Source>() {
    const auto* source = static_cast<const Source*>(body.data);
    for (std::int64_t i = 0; i < body.numel; ++i) {
      const Source& value = source[element_offset(body, i)];
      if constexpr (std::is_arithmetic_v<Source> || std::is_same_v<Source, T>) {
        values.push_back(static_cast<T>(value));
      } else {
        values.push_back(static_cast<T>(static_cast<float>(value)));
      }
    }
  });
  return values;
}

#define DIPTYCH_INSTANTIATE(T)                                                 \
  template Tensor Tensor::from(const std::vector<T>&, const Shape&, Location); \
  template Tensor Tensor::from(std::span<const T>, const Shape&, Location);    \
  template const T* Tensor::data<T>(Location) const;                           \
  template T* Tensor::mutable_data<T>(Location);                               \
  template std::vector<T> Tensor::to_vector<T>(Location) const;
DIPTYCH_INSTANTIATE(bool)
DIPTYCH_INSTANTIATE(std::uint8_t)
DIPTYCH_INSTANTIATE(std::int8_t)
DIPTYCH_INSTANTIATE(std::uint16_t)
DIPTYCH_INSTANTIATE(std::int16_t)
DIPTYCH_INSTANTIATE(std::uint32_t)
DIPTYCH_INSTANTIATE(std::int32_t)
DIPTYCH_INSTANTIATE(std::uint64_t)
DIPTYCH_INSTANTIATE(std::int64_t)
DIPTYCH_INSTANTIATE(float16)
DIPTYCH_INSTANTIATE(bfloat16)
DIPTYCH_INSTANTIATE(float)
DIPTYCH_INSTANTIATE(double)
#undef DIPTYCH_INSTANTIATE

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) {
    return false;
  }
  const TensorBody& x = *a.body();
  const TensorBody& y = *b.body();
  internal_check(!x.is_traced && !y.is_traced, "bitwise_equal reads elements");
  make_ready(x);
  make_ready(y);
  const std::size_t size = size_of(x.type.dtype);
  if (x.contiguous && y.contiguous &&
      (x.numel == 0 || std::memcmp(x.data, y.data, static_cast<std::size_t>(x.numel) * size) == 0)) {
    return true;
  }
  return visit(x.type.dtype, [&]<class T>() {
    const auto* in_x = static_cast<const T*>(x.data);
    const auto* in_y = static_cast<const T*>(y.data);
    for (std::int64_t i = 0; i < x.numel; ++i) {
      const T& p = in_x[element_offset(x, i)];
      const T& q = in_y[element_offset(y, i)];
      const bool both_nan = p != p && q != q;
      if (!both_nan && std::memcmp(&p, &q, sizeof(T)) != 0) {
        return false;
      }
    }
    return true;
  });
}

std::string to_string(const Tensor& tensor) {
  std::string text = to_string(tensor.type());
  if (tensor.is_traced()) {
    return text + " (traced)";
  }
  constexpr std::size_t kShown = 16;
  const std::vector<double> values = tensor.to_vector<double>();
  text += " {";
  for (std::size_t i = 0; i < std::min(values.size(), kShown); ++i) {
    text += i == 0 ? "" : ", ";
    if (std::isnan(values[i])) {
      text += "nan";  // its sign is not part of the numerics contract
    } else if (is_floating(tensor.dtype()) && tensor.dtype() != DType::float64) {
      text += fmt::format("{}", static_cast<float>(values[i]));
    } else {
      text += fmt::format("{}", values[i]);
    }
  }
  return text + (values.size() > kShown ? ", ...}" : "}");
}

}  // namespace diptych
