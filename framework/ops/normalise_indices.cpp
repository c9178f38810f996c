#include "framework/ops/normalise_indices.h"

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/ops/define.h"
#include "framework/ops/index.h"
#include "framework/ops/indexing_ops.h"

namespace diptych {
namespace {

using namespace ops;

void infer_normalised(const InferCall& call, TensorType& output) {
  check_indices(call, 0);
  const Dims& lengths = call.as<IndexAttributes>().lengths;
  const Shape& shape = call.shape(0);
  const bool fits = lengths.rank() == 1 || (shape.rank() > 0 && lengths.rank() == shape.back());
  if (lengths.rank() == 0 || !fits) {
    call.fail_shape(fmt::format("{} lengths of axes", lengths.rank()),
                    "give one, or one for each place along the last axis of the indices");
  }
  for (const std::int64_t length : lengths) {
    if (length < 0) {
      call.fail_shape(fmt::format("an axis of length {}", length), "lengths are at least 0");
    }
  }
  output = call.input(0);
}

void normalise_kernel(const KernelCall& call) {
  const auto& attributes = *static_cast<const IndexAttributes*>(call.attributes);
  const kernels::Dense input(call.inputs[0]);
  const auto* indices = static_cast<const std::int64_t*>(input.data());
  auto* out = static_cast<std::int64_t*>(call.output.data);
  const std::int64_t count = call.output.type->shape.product();
  const int axes = attributes.lengths.rank();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = attributes.lengths[axes == 1 ? 0 : static_cast<int>(i % axes)];
    const std::int64_t least = attributes.from_end ? -length : 0;
    if (indices[i] < least || indices[i] >= length) [[unlikely]] {
      throw ElementError(
          fmt::format("{}: index {} at position {} is outside [{}, {})", call.op->name, indices[i], i, least, length),
          "check the indices, or make the axis longer");
    }
    out[i] = indices[i] < 0 ? indices[i] + length : indices[i];
  }
}

const Op kNormaliseIndices{{.name = "normalise_indices",
                            .doc = "Indices, checked, and counted from the start where they count from the end",
                            .inputs = 1,
                            .attributes = &attribute_type<IndexAttributes>,
                            .infer = infer_normalised,
                            .kernel = normalise_kernel,
                            .can_fail = true,
                            .samples =
                                [] {
                                  using A = IndexAttributes;
                                  const auto in = [](const Shape& shape, double low, double high) {
                                    return sample(DType::int64, shape, low, high);
                                  };
                                  return std::vector<Sample>{with({in({7}, -5, 5)}, A{{5}}),
                                                             with({in({4, 3}, -2, 2)}, A{{2, 4, 3}}),
                                                             with({in({}, 0, 6)}, A{{6}, false}),
                                                             with({transposed(in({4, 2}, -3, 3))}, A{{3}}),
                                                             with({in({0, 2}, 0, 1)}, A{{0, 3}})};
                                },
                            .family = "indexing"}};

}  // namespace

namespace op {
const OpDef& normalise_indices = *kNormaliseIndices;
}  // namespace op

Tensor normalise_indices(const Tensor& indices, const Dims& lengths, bool from_end, Location where) {
  const IndexAttributes attributes{lengths, from_end};
  return apply_op(kNormaliseIndices, &attributes, where, as_indices(indices, where));
}

}  // namespace diptych
