#include "framework/ops/creation.h"

#include "framework/ops/define.h"
#include "framework/ops/full.h"

namespace diptych {
namespace {

template <class T>
struct Full {
  DIPTYCH_INLINE static T apply(const FullAttributes& attributes) { return static_cast<T>(attributes.value); }
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

const Op kFull{{.name = "full",
                .doc = "A tensor of one value",
                .inputs = 0,
                .attributes = &attribute_type<FullAttributes>,
                .infer =
                    [](const InferCall& call, TensorType& output) {
                      const auto& attributes = call.as<FullAttributes>();
                      for (std::int64_t length : attributes.shape) {
                        if (length < 0) {
                          call.fail_shape("a length is negative", "");
                        }
                      }
                      output.dtype = attributes.dtype;
                      output.shape = attributes.shape;
                    },
                .kernel = kernels::elementwise,
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
                .family = "constant"}};

}  // namespace

const OpDef& full_op() { return *kFull; }

Tensor full(const Shape& shape, double value, DType dtype, Location where) {
  const FullAttributes attributes{shape, dtype, value};
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

}  // namespace diptych
