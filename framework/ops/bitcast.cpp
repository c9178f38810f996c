#include "framework/ops/bitcast.h"

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/ops/define.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

const Op kBitcast{{.name = "bitcast",
                   .doc = "The bits of x as another element type",
                   .inputs = 1,
                   .attributes = &attribute_type<CastAttributes>,
                   .infer =
                       [](const InferCall& call, TensorType& output) {
                         const DType to = call.as<CastAttributes>().dtype;
                         const DType from = call.input(0).dtype;
                         if (size_of(to) != size_of(from) || (to == DType::boolean && from != to)) {
                           call.fail_dtype("the bits are no elements of the other type",
                                           "choose a type of the same size, and compare with 0 for bool");
                         }
                         output = {to, call.shape(0)};
                       },
                   .kernel = [](const KernelCall& call) { kernels::copy_dense(call.inputs[0], call.output.data); },
                   .stores = true,
                   .samples =
                       [] {
                         const auto to = [](DType from, DType dtype, Shape shape) {
                           return with({sample(from, shape, -9, 9)}, CastAttributes{dtype});
                         };
                         return std::vector<Sample>{
                             to(DType::float32, DType::int32, {3, 17}), to(DType::int64, DType::float64, {5}),
                             to(DType::uint16, DType::bfloat16, {2, 3}), to(DType::float16, DType::uint16, {0, 2}),
                             with({transposed(sample(DType::float64, {3, 5}))}, CastAttributes{DType::uint64})};
                       },
                   .family = "shape"}};

}  // namespace

Tensor bitcast(const Tensor& x, DType dtype, Location where) {
  if (x.dtype() == dtype) {
    return x;
  }
  const CastAttributes attributes{dtype};
  return apply_op(kBitcast, &attributes, where, x);
}

}  // namespace diptych
