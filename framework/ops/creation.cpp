#include "framework/ops/creation.h"

#include <cmath>

#include "framework/ops/created.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/define.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

/// A number as an element.
template <class T>
DIPTYCH_INLINE T element(double value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return T(value);
  } else {
    return math::convert<T>(value);
  }
}

template <class T>
struct Full {
  DIPTYCH_INLINE static T apply(const FullAttributes& attributes) { return element<T>(attributes.value); }
};

std::array<LoopSet, kDTypeCount> full_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  const auto fill = [&]<class T>() {
    table[static_cast<std::size_t>(dtype_of<T>)] = kernels::loop_set<Full<T>, FullAttributes>();
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    visit(static_cast<DType>(i), fill);
  }
  return table;
}

const Op kFull{
    elementwise_op({.name = "full",
                    .doc = "A tensor of one value",
                    .inputs = 0,
                    .attributes = &attribute_type<FullAttributes>,
                    .infer =
                        [](const InferCall& call, TensorType& output) {
                          const auto& attributes = call.as<FullAttributes>();
                          infer_created(call, attributes.shape, attributes.dtype, output);
                        },
                    .stores = true,
                    .loops = full_loops(),
                    .samples =
                        [] {
                          std::vector<Sample> samples;
                          for (int i = 0; i < kDTypeCount; ++i) {
                            const FullAttributes attributes{{2, 3}, static_cast<DType>(i), 1.0};
                            samples.push_back({{}, AttributeValue(&attribute_type<FullAttributes>, &attributes)});
                          }
                          return samples;
                        },
                    .family = "constant"})};

/// Samples without inputs, one per attributes in the list.
template <class Attributes>
std::vector<Sample> attribute_samples(std::initializer_list<Attributes> list) {
  std::vector<Sample> samples;
  for (const Attributes& attributes : list) {
    samples.push_back(with({}, attributes));
  }
  return samples;
}

/// out[i] = value(i), computed in double and then converted to an element.
template <class Value>
void fill(const KernelCall& call, const Value& value) {
  visit(call.output.type->dtype, [&]<class T>() {
    T* out = static_cast<T*>(call.output.data);
    const std::int64_t count = call.output.type->shape.product();
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = element<T>(value(i));
    }
  });
}

void check_finite(const InferCall& call, std::initializer_list<double> numbers) {
  for (const double number : numbers) {
    if (!std::isfinite(number)) [[unlikely]] {
      throw Error(std::string(call.op.name) + ": a number is not finite", call.where, "");
    }
  }
}

const Op kArange{{.name = "arange",
                  .doc = "start, start + step, start + 2 step, ...",
                  .inputs = 0,
                  .attributes = &attribute_type<ArangeAttributes>,
                  .infer =
                      [](const InferCall& call, TensorType& output) {
                        const auto& a = call.as<ArangeAttributes>();
                        check_finite(call, {a.start, a.step});
                        infer_created(call, {a.length}, a.dtype, output);
                      },
                  .kernel =
                      [](const KernelCall& call) {
                        const ArangeAttributes a = *static_cast<const ArangeAttributes*>(call.attributes);
                        fill(call, [a](std::int64_t i) { return a.start + static_cast<double>(i) * a.step; });
                      },
                  .stores = true,
                  .samples =
                      [] {
                        return attribute_samples<ArangeAttributes>({{0, 1, 7, DType::int64},
                                                                    {5, -2, 3, DType::int32},
                                                                    {0.5, 0.1, 33, DType::float32},
                                                                    {0, 1, 5, DType::bfloat16},
                                                                    {-2, 1, 5, DType::float16},
                                                                    {-2, 1, 5, DType::int8},
                                                                    {0, 1, 0, DType::float64}});
                      },
                  .family = "constant"}};

const Op kLinspace{{.name = "linspace",
                    .doc = "Evenly spaced numbers from start to stop, both included",
                    .inputs = 0,
                    .attributes = &attribute_type<LinspaceAttributes>,
                    .infer =
                        [](const InferCall& call, TensorType& output) {
                          const auto& a = call.as<LinspaceAttributes>();
                          check_finite(call, {a.start, a.stop, a.stop - a.start});
                          infer_created(call, {a.length}, a.dtype, output);
                        },
                    .kernel =
                        [](const KernelCall& call) {
                          const LinspaceAttributes a = *static_cast<const LinspaceAttributes*>(call.attributes);
                          const std::int64_t last = a.length - 1;
                          const double step = last > 0 ? (a.stop - a.start) / static_cast<double>(last) : 0;
                          // Computed from both ends, so that both are exact.
                          fill(call, [=](std::int64_t i) {
                            return 2 * i <= last ? a.start + static_cast<double>(i) * step
                                                 : a.stop - static_cast<double>(last - i) * step;
                          });
                        },
                    .stores = true,
                    .samples =
                        [] {
                          return attribute_samples<LinspaceAttributes>({{0, 1, 11, DType::float32},
                                                                        {-3, 3, 6, DType::float64},
                                                                        {2, 9, 1, DType::float32},
                                                                        {0, 10, 5, DType::int32},
                                                                        {0, 1, 0, DType::bfloat16}});
                        },
                    .family = "constant"}};

const Op kEye{{.name = "eye",
               .doc = "Ones on the diagonal of a matrix, zeros elsewhere",
               .inputs = 0,
               .attributes = &attribute_type<EyeAttributes>,
               .infer =
                   [](const InferCall& call, TensorType& output) {
                     const auto& a = call.as<EyeAttributes>();
                     infer_created(call, {a.rows, a.columns}, a.dtype, output);
                   },
               .kernel =
                   [](const KernelCall& call) {
                     const Shape& shape = call.output.type->shape;
                     visit(call.output.type->dtype, [&]<class T>() {
                       T* out = static_cast<T*>(call.output.data);
                       std::fill_n(out, shape.product(), T(0));
                       for (std::int64_t i = 0; i < std::min(shape[0], shape[1]); ++i) {
                         out[i * (shape[1] + 1)] = T(1);
                       }
                     });
                   },
               .stores = true,
               .samples =
                   [] {
                     return attribute_samples<EyeAttributes>({{3, 3, DType::float32},
                                                              {2, 5, DType::float64},
                                                              {5, 2, DType::boolean},
                                                              {0, 4, DType::int64},
                                                              {3, 4, DType::bfloat16},
                                                              {3, 3, DType::uint16}});
                   },
               .family = "constant"}};

}  // namespace

namespace op {
const OpDef& full = *kFull;
const OpDef& arange = *kArange;
const OpDef& linspace = *kLinspace;
const OpDef& eye = *kEye;
}  // namespace op

Tensor full(const Shape& shape, double value, DType dtype, Location where) {
  const ops::FullAttributes attributes{shape, dtype, value};
  return apply_op(kFull, &attributes, where);
}
Tensor zeros(const Shape& shape, DType dtype, Location where) { return full(shape, 0, dtype, where); }
Tensor ones(const Shape& shape, DType dtype, Location where) { return full(shape, 1, dtype, where); }
Tensor full_like(const Tensor& like, double value, Location where) {
  return full(like.shape(), value, like.dtype(), where);
}
Tensor full_like(const Tensor& like, double value, const Shape& shape, Location where) {
  return full(shape, value, like.dtype(), where);
}

Tensor ops::zeros_of(const TensorType& type) { return expand(full(Shape{}, 0.0, type.dtype), type.shape); }
Tensor zeros_like(const Tensor& like, Location where) { return full_like(like, 0, where); }
Tensor ones_like(const Tensor& like, Location where) { return full_like(like, 1, where); }

Tensor arange(double start, double stop, double step, std::optional<DType> dtype, Location where) {
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) || step == 0) {
    throw Error("arange: start, stop and step must be finite, and step not 0", where, "");
  }
  const double steps = std::ceil((stop - start) / step);
  if (steps > static_cast<double>(kMostBytes)) {
    throw ShapeError("arange: the tensor would be larger than a tebibyte", where, "check start, stop and step");
  }
  // The quotient is rounded, so the length is corrected until its last element lies before `stop` and the next doesn't.
  auto length = static_cast<std::int64_t>(std::max(steps, 0.0));
  const auto before = [&](std::int64_t i) {
    const double value = start + static_cast<double>(i) * step;
    return step > 0 ? value < stop : value > stop;
  };
  if (length > 0 && !before(length - 1)) {
    --length;
  } else if (before(length)) {
    ++length;
  }
  const bool whole = start == std::floor(start) && step == std::floor(step);
  const ArangeAttributes attributes{start, step, length, dtype.value_or(whole ? DType::int64 : DType::float32)};
  return apply_op(kArange, &attributes, where);
}
Tensor arange(double stop, std::optional<DType> dtype, Location where) { return arange(0, stop, 1, dtype, where); }

Tensor linspace(double start, double stop, std::int64_t count, DType dtype, Location where) {
  const LinspaceAttributes attributes{start, stop, count, dtype};
  return apply_op(kLinspace, &attributes, where);
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype, Location where) {
  const EyeAttributes attributes{rows, columns, dtype};
  return apply_op(kEye, &attributes, where);
}
Tensor eye(std::int64_t rows, DType dtype, Location where) { return eye(rows, rows, dtype, where); }

}  // namespace diptych
