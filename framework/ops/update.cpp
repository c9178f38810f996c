// Optimizer updates of a parameter, in as few passes over memory as ops with a single result allow.

#include "framework/ops/update.h"

#include "framework/ops/define.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych {
namespace {

using namespace ops;

struct Axpby {
  template <class T>
  DIPTYCH_INLINE static T apply(const AxpbyAttributes& attributes, T a, T b) {
    return T(attributes.alpha) * a + T(attributes.beta) * b;
  }
};
const Op kAxpby{elementwise_op({.name = "axpby",
                                .doc = "alpha a + beta b",
                                .inputs = 2,
                                .attributes = &attribute_type<AxpbyAttributes>,
                                .infer = infer_binary<Domain::floating>,
                                .loops = loops<Axpby, Domain::floating, 2, AxpbyAttributes>(),
                                .vjp = [](const VjpCall& v) -> Gradients {
                                  const auto& attributes = v.as<AxpbyAttributes>();
                                  return {v.needs(0) ? v.cotangent * attributes.alpha : Tensor(),
                                          v.needs(1) ? v.cotangent * attributes.beta : Tensor()};
                                },
                                .flops = flops_per_element<3>,
                                .samples =
                                    [] {
                                      std::vector<Sample> samples = binary_samples(kFloats, -3, 3);
                                      for (Sample& sample : samples) {
                                        const AxpbyAttributes attributes{0.9, -0.125};
                                        sample.attributes =
                                            AttributeValue(&attribute_type<AxpbyAttributes>, &attributes);
                                      }
                                      return samples;
                                    }})};

struct SecondMoment {
  template <class T>
  DIPTYCH_INLINE static T apply(const SecondMomentAttributes& attributes, T average, T x) {
    return T(attributes.decay) * average + T(1 - attributes.decay) * (x * x);
  }
};
const Op kSecondMoment{elementwise_op({.name = "second_moment",
                                       .doc = "decay average + (1 - decay) x^2",
                                       .inputs = 2,
                                       .attributes = &attribute_type<SecondMomentAttributes>,
                                       .infer = infer_binary<Domain::floating>,
                                       .loops = loops<SecondMoment, Domain::floating, 2, SecondMomentAttributes>(),
                                       .vjp = [](const VjpCall& v) -> Gradients {
                                         const double decay = v.as<SecondMomentAttributes>().decay;
                                         return {v.needs(0) ? v.cotangent * decay : Tensor(),
                                                 v.needs(1) ? v.cotangent * v.input(1) * (2 * (1 - decay)) : Tensor()};
                                       },
                                       .saves = {.inputs = 2},
                                       .flops = flops_per_element<4>,
                                       .samples =
                                           [] {
                                             std::vector<Sample> samples = binary_samples(kFloats, -3, 3);
                                             for (Sample& sample : samples) {
                                               const SecondMomentAttributes attributes{0.75};
                                               sample.attributes =
                                                   AttributeValue(&attribute_type<SecondMomentAttributes>, &attributes);
                                             }
                                             return samples;
                                           }})};

/// Three tensors of one type that broadcast.
void infer_three(const InferCall& call, TensorType& output) {
  check_domain<Domain::floating>(call, call.input(0).dtype);
  output.dtype = call.input(0).dtype;
  Shape pair;
  if (call.input(1).dtype != output.dtype || call.input(2).dtype != output.dtype) {
    call.fail_dtype("element types differ", "cast one of them");
  }
  if (!broadcast(call.shape(0), call.shape(1), pair) || !broadcast(pair, call.shape(2), output.shape)) {
    call.fail_shape("shapes don't broadcast",
                    "align the shapes from the right: lengths must be equal, or one of them 1");
  }
}

/// Equal shapes with a scalar at the end, as optimizers have them; also broadcast, strided and empty ones.
template <class A>
std::vector<Sample> three_samples(const AttributeType* type, const A* attributes, double low, double high) {
  std::vector<Sample> samples;
  for (const DType dtype : kFloats) {
    const auto in = [&](const Shape& shape) { return sample(dtype, shape, low, high); };
    const auto add = [&](SampleInput a, SampleInput b, SampleInput c) {
      samples.push_back({{std::move(a), std::move(b), std::move(c)}, AttributeValue(type, attributes)});
    };
    add(in({5, 37}), in({5, 37}), in({}));
    add(in({3, 1}), in({7}), in({3, 7}));
    add(transposed(in({9, 17})), in({9, 17}), in({1}));
    add(in({0, 3}), in({1, 3}), in({}));
    add(in({}), in({}), in({}));
  }
  return samples;
}

struct Descend {
  template <class T>
  DIPTYCH_INLINE static T apply(T a, T b, T scale) {
    return a - scale * b;
  }
};
const Op kDescend{elementwise_op({.name = "descend",
                                  .doc = "a - scale b",
                                  .inputs = 3,
                                  .infer = infer_three,
                                  .loops = loops<Descend, Domain::floating, 3>(),
                                  .vjp = [](const VjpCall& v) -> Gradients {
                                    return {v.cotangent, v.needs(1) ? neg(v.cotangent * v.input(2)) : Tensor(),
                                            v.needs(2) ? neg(v.cotangent * v.input(1)) : Tensor()};
                                  },
                                  .saves = {.inputs = 6},
                                  .flops = flops_per_element<2>,
                                  .samples = [] { return three_samples<AxpbyAttributes>(nullptr, nullptr, -2, 2); }})};

struct AdamDirection {
  template <class T>
  DIPTYCH_INLINE static T apply(const AdamDirectionAttributes& attributes, T first, T second, T scale) {
    return first / (math::sqrt(second) * scale + T(attributes.epsilon));
  }
};
const Op kAdamDirection{
    elementwise_op({.name = "adam_direction",
                    .doc = "first / (sqrt(second) scale + epsilon)",
                    .inputs = 3,
                    .attributes = &attribute_type<AdamDirectionAttributes>,
                    .infer = infer_three,
                    .loops = loops<AdamDirection, Domain::floating, 3, AdamDirectionAttributes>(),
                    .vjp = [](const VjpCall& v) -> Gradients {
                      const Tensor root = sqrt(v.input(1));
                      const Tensor divisor = root * v.input(2) + v.as<AdamDirectionAttributes>().epsilon;
                      const Tensor by_first = v.cotangent / divisor;
                      const Tensor by_divisor = neg(by_first * v.input(0) / divisor);
                      return {by_first, v.needs(1) ? by_divisor * v.input(2) / (root * 2.0) : Tensor(),
                              v.needs(2) ? by_divisor * root : Tensor()};
                    },
                    .saves = {.inputs = 7},
                    .flops = flops_per_element<4>,
                    .samples =
                        [] {
                          const AdamDirectionAttributes attributes{0.25};
                          return three_samples(&attribute_type<AdamDirectionAttributes>, &attributes, 0.5, 2);
                        }})};

}  // namespace

namespace op {
const OpDef& axpby = *kAxpby;
const OpDef& second_moment = *kSecondMoment;
const OpDef& descend = *kDescend;
const OpDef& adam_direction = *kAdamDirection;
}  // namespace op

Tensor axpby(const Tensor& a, const Tensor& b, double alpha, double beta, Location where) {
  const AxpbyAttributes attributes{alpha, beta};
  return apply_op(kAxpby, &attributes, where, a, b);
}
Tensor descend(const Tensor& a, const Tensor& b, const Tensor& scale, Location where) {
  return apply_op(kDescend, nullptr, where, a, b, scale);
}
Tensor second_moment(const Tensor& average, const Tensor& x, double decay, Location where) {
  const SecondMomentAttributes attributes{decay};
  return apply_op(kSecondMoment, &attributes, where, average, x);
}
Tensor adam_direction(const Tensor& first, const Tensor& second, const Tensor& scale, double epsilon, Location where) {
  const AdamDirectionAttributes attributes{epsilon};
  return apply_op(kAdamDirection, &attributes, where, first, second, scale);
}

}  // namespace diptych
