// The generator and dropout.

#include "framework/ops/random.h"

#include "framework/core/context.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/drawn.h"

namespace diptych {
namespace {

using namespace ops;

const Op kNextState{
    random_op({.name = "random_next_state",
               .doc = "A generator's state for the draw after the next",
               .inputs = 1,
               .infer = [](const InferCall& call, TensorType& output) { infer_drawn(call, {2}, DType::int64, output); },
               .kernel =
                   [](const KernelCall& call) {
                     const RandomState state = state_of(call);
                     auto* out = static_cast<std::uint64_t*>(call.output.data);
                     out[0] = state.seed;
                     out[1] = state.counter + 1;
                   },
               .samples =
                   [] {
                     return std::vector<Sample>{{{state_sample()}, {}}};
                   },
               .family = "random"})};

Tensor initial_state(std::uint64_t seed) {
  return Tensor::from({static_cast<std::int64_t>(seed), std::int64_t{0}}, {2});
}

struct MaskedScale {
  template <class T>
  DIPTYCH_INLINE static T apply(const MaskedScaleAttributes& a, bool mask, T x) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      return T(apply(a, mask, static_cast<float>(x)));
    } else {
      return kernels::kept_or_zero(mask, x * static_cast<T>(a.scale));
    }
  }
};
template <class T>
constexpr LoopSet masked_scale_loop() {
  return kernels::loop_set<MaskedScale, MaskedScaleAttributes, bool, T>();
}
std::array<LoopSet, kDTypeCount> masked_scale_loops() {
  std::array<LoopSet, kDTypeCount> table{};
  table[static_cast<std::size_t>(DType::bfloat16)] = masked_scale_loop<bfloat16>();
  table[static_cast<std::size_t>(DType::float32)] = masked_scale_loop<float>();
  table[static_cast<std::size_t>(DType::float64)] = masked_scale_loop<double>();
  return table;
}
const Op kMaskedScale{elementwise_op(
    {.name = "masked_scale",
     .doc = "x * scale where the mask holds, else 0",
     .inputs = 2,
     .attributes = &attribute_type<MaskedScaleAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           check_domain<Domain::floating>(call, call.input(1).dtype);
           if (call.input(0).dtype != DType::boolean) {
             call.fail_dtype("the mask is not bool", "compare with 0 first");
           }
           output.dtype = call.input(1).dtype;
           if (!broadcast(call.shape(0), call.shape(1), output.shape)) {
             call.fail_shape("the mask doesn't broadcast with x", "align the shapes from the right");
           }
         },
     .loops = masked_scale_loops(),
     .loop_input = 1,
     .vjp = [](const VjpCall& v) -> Gradients {
       const std::array<const Tensor*, 2> inputs{&v.input(0), &v.cotangent};
       return {Tensor(), apply(v.op, inputs, v.attributes, Location::current())};
     },
     .saves = {.inputs = 1},
     .linear = 2,
     .flops = flops_per_element<1>,
     .samples =
         [] {
           std::vector<Sample> samples;
           for (const DType dtype : kFloats) {
             for (const Shape& shape : {Shape{4, 33}, Shape{}, Shape{0, 3}}) {
               samples.push_back(
                   with({sample(DType::boolean, shape, 0, 2), sample(dtype, shape)}, MaskedScaleAttributes{1.25}));
             }
             samples.push_back(with({sample(DType::boolean, {33}, 0, 2), transposed(sample(dtype, {4, 33}))},
                                    MaskedScaleAttributes{2}));
           }
           return samples;
         }})};

}  // namespace

namespace op {
const OpDef& random_next_state = *kNextState;
const OpDef& masked_scale = *kMaskedScale;
}  // namespace op

Generator::Generator(std::uint64_t seed) {
  // The thread's default generator may be created while a graph is captured: its cell is not part of that graph.
  const EagerScope eager;
  state_ = Variable(initial_state(seed), "generator");
}

void Generator::manual_seed(std::uint64_t seed, Location where) const {
  Variable(state_).assign(initial_state(seed), where);
}

Tensor Generator::draw(Location where) const {
  Tensor state = state_.value();
  Variable(state_).assign(apply_op(kNextState, nullptr, where, state), where);
  return state;
}

const Generator& default_generator() {
  thread_local const Generator generator;
  return generator;
}
void manual_seed(std::uint64_t seed, Location where) { default_generator().manual_seed(seed, where); }

Tensor dropout(const Tensor& x, double p, bool training, const Generator& generator, Location where) {
  if (!(p >= 0 && p <= 1)) {
    throw Error(fmt::format("dropout: the probability {} is outside [0, 1]", p), where, "");
  }
  if (!is_floating(x.dtype())) {
    throw DTypeError(fmt::format("dropout: needs floating-point elements: {}", to_string(x.type())), where,
                     "cast the input to f32 first");
  }
  if (!training || p == 0) {
    return x;
  }
  const MaskedScaleAttributes attributes{factor_of_dropout(p)};
  return apply_op(kMaskedScale, &attributes, where, bernoulli(x.shape(), 1 - p, DType::boolean, generator, where), x);
}

}  // namespace diptych
