// Random numbers of discrete distributions: whole numbers, permutations, coins.

#include "framework/dispatch/element_error.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/drawn.h"

namespace diptych {
namespace {

using namespace ops;

// integers

/// bits * bound / 2^64: a number below `bound`, uniform up to a deviation of bound / 2^64.
DIPTYCH_INLINE std::uint64_t below(std::uint64_t bits, std::uint64_t bound) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64U);
}
template <class T>
struct IntegersDraw {
  using Bits = std::uint64_t;
  DIPTYCH_INLINE static T apply(const IntegersAttributes& a, std::uint64_t bits) {
    const auto low = static_cast<std::uint64_t>(a.low);
    return static_cast<T>(low + below(bits, static_cast<std::uint64_t>(a.high) - low));
  }
};

template <class Fn>
void visit_integral(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::uint8:
      return fn.template operator()<std::uint8_t>();
    case DType::int32:
      return fn.template operator()<std::int32_t>();
    default:
      return fn.template operator()<std::int64_t>();
  }
}

const Op kIntegers{random_op(
    {.name = "random_integers",
     .doc = "Whole numbers in [low, high), each as likely, by a generator's state",
     .inputs = 1,
     .attributes = &attribute_type<IntegersAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           const auto& a = call.as<IntegersAttributes>();
           if (!is_integral(a.dtype)) {
             throw DTypeError(fmt::format("{}: gives integers, not {}", call.op.name, name_of(a.dtype)), call.where,
                              "draw i64, then cast");
           }
           bool fits = a.low < a.high;
           visit_integral(a.dtype, [&]<class T>() {
             fits = fits && a.low >= std::numeric_limits<T>::min() && a.high - 1 <= std::numeric_limits<T>::max();
           });
           if (!fits) {
             fail_parameter(call, "low must be below high, and both within the element type");
           }
           infer_drawn(call, a.shape, a.dtype, output);
         },
     .kernel =
         [](const KernelCall& call) {
           visit_integral(call.output.type->dtype, [&]<class T>() {
             draw_into<IntegersDraw, T>(call, *static_cast<const IntegersAttributes*>(call.attributes));
           });
         },
     .flops = flops_per_element<1>,
     .samples =
         [] {
           return drawn_samples<IntegersAttributes>({{{3, 37}, DType::int64, -5, 6},
                                                     {{531}, DType::int32, 0, 1000},
                                                     {{70}, DType::uint8, 0, 256},
                                                     {{0}, DType::int64, 0, 1}});
         },
     .family = "random"})};

// permutation

template <class T>
struct BitsDraw {
  using Bits = std::uint64_t;
  DIPTYCH_INLINE static T apply(const PermutationAttributes& /*a*/, std::uint64_t bits) { return static_cast<T>(bits); }
};

/// The shuffle of [Fisher & Yates 1938], from the end.
void permutation_kernel(const KernelCall& call) {
  draw_into<BitsDraw, std::int64_t>(call, PermutationAttributes());
  auto* out = static_cast<std::int64_t*>(call.output.data);
  const std::int64_t count = call.output.type->shape[0];
  // Going up, out[i] still holds its random bits when the loop reaches it: the "inside-out" form.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto j =
        static_cast<std::int64_t>(below(static_cast<std::uint64_t>(out[i]), static_cast<std::uint64_t>(i) + 1));
    out[i] = out[j];
    out[j] = i;
  }
}
const Op kPermutation{random_op({.name = "random_permutation",
                                 .doc = "0, 1, ... in random order, by a generator's state",
                                 .inputs = 1,
                                 .attributes = &attribute_type<PermutationAttributes>,
                                 .infer =
                                     [](const InferCall& call, TensorType& output) {
                                       infer_drawn(call, {call.as<PermutationAttributes>().count}, DType::int64,
                                                   output);
                                     },
                                 .kernel = permutation_kernel,
                                 .samples =
                                     [] {
                                       return drawn_samples<PermutationAttributes>({{37}, {1}, {0}});
                                     },
                                 .family = "random"})};

// bernoulli

using kernels::Chance;

template <class T>
struct BernoulliDraw {
  using Bits = std::uint32_t;
  DIPTYCH_INLINE static T apply(const Chance& p, std::uint32_t bits) { return static_cast<T>(p(bits)); }
};

void bernoulli_kernel(const KernelCall& call) {
  const Chance parameters = Chance::of(static_cast<const BernoulliAttributes*>(call.attributes)->p);
  visit_computing(call.output.type->dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {  // the same bytes, in a type whose loop vectorises
      kernels::PerIsaRandom<BernoulliDraw<std::uint8_t>, Chance, std::uint8_t>::active()(
          state_of(call), call.output.type->shape.product(), static_cast<std::uint8_t*>(call.output.data), parameters);
    } else {
      draw_into<BernoulliDraw, T>(call, parameters);
    }
  });
}
const Op kBernoulli{
    random_op({.name = "random_bernoulli",
               .doc = "1 with probability p, else 0, by a generator's state",
               .inputs = 1,
               .attributes = &attribute_type<BernoulliAttributes>,
               .infer =
                   [](const InferCall& call, TensorType& output) {
                     const auto& a = call.as<BernoulliAttributes>();
                     if (!(a.p >= 0 && a.p <= 1)) {
                       fail_parameter(call, "the probability is outside [0, 1]");
                     }
                     infer_drawn(call, a.shape, a.dtype, output);
                   },
               .kernel = bernoulli_kernel,
               .flops = flops_per_element<1>,
               .samples =
                   [] {
                     std::vector<Sample> samples;
                     for (const DType dtype : kAll) {
                       samples.push_back(with({state_sample()}, BernoulliAttributes{{3, 37}, dtype, 0.3}));
                     }
                     samples.push_back(with({state_sample()}, BernoulliAttributes{{9}, DType::boolean, 1}));
                     samples.push_back(with({state_sample()}, BernoulliAttributes{{0}, DType::boolean, 0}));
                     return samples;
                   },
               .family = "random"})};

/// p[i] compared with a 32-bit number in [0, 1), as in random_bernoulli.
void bernoulli_of_kernel(const KernelCall& call) {
  const kernels::Dense dense(call.inputs[1]);
  const RandomState state = state_of(call);
  const std::int64_t count = call.output.type->shape.product();
  visit_floating(call.output.type->dtype, [&]<class T>() {
    const auto* p = static_cast<const T*>(dense.data());
    T* out = static_cast<T*>(call.output.data);
    std::uint32_t bits[kernels::kRandomTile];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = i % kernels::kRandomTile;
      if (at == 0) {
        kernels::random_bits(state, i, std::min(kernels::kRandomTile, count - i), bits);
      }
      const auto probability = static_cast<double>(p[i]);
      if (!(probability >= 0 && probability <= 1)) [[unlikely]] {
        throw ElementError(
            fmt::format("bernoulli: the probability {} at position {} is outside [0, 1]", probability, i),
            "clip it, or check for NaN");
      }
      out[i] = static_cast<double>(bits[at]) * 0x1p-32 < probability ? T(1) : T(0);
    }
  });
}
const Op kBernoulliOf{
    random_op({.name = "random_bernoulli_of",
               .doc = "1 with the probability that p says for the element, else 0, by a generator's state",
               .inputs = 2,
               .infer =
                   [](const InferCall& call, TensorType& output) {
                     check_domain<Domain::floating>(call, call.input(1).dtype);
                     infer_drawn(call, call.shape(1), call.input(1).dtype, output);
                   },
               .kernel = bernoulli_of_kernel,
               .vjp = [](const VjpCall&) -> Gradients { return {}; },
               .jvp = [](const JvpCall&) { return Tensor(); },
               .can_fail = true,
               .flops = flops_per_element<1>,
               .samples =
                   [] {
                     std::vector<Sample> samples;
                     for (const DType dtype : kFloats) {
                       samples.push_back({{state_sample(), sample(dtype, {3, 37}, 0, 1)}, {}});
                       samples.push_back({{state_sample(), transposed(sample(dtype, {5, 9}, 0, 1))}, {}});
                       samples.push_back({{state_sample(), sample(dtype, {0, 2}, 0, 1)}, {}});
                     }
                     return samples;
                   },
               .family = "random"})};

}  // namespace

namespace op {
const OpDef& random_integers = *kIntegers;
const OpDef& random_permutation = *kPermutation;
const OpDef& random_bernoulli = *kBernoulli;
const OpDef& random_bernoulli_of = *kBernoulliOf;
}  // namespace op

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, const Generator& generator,
               Location where) {
  return drawn(kIntegers, IntegersAttributes{shape, dtype, low, high}, generator, where);
}
Tensor randperm(std::int64_t count, const Generator& generator, Location where) {
  return drawn(kPermutation, PermutationAttributes{count}, generator, where);
}
Tensor bernoulli(const Shape& shape, double p, DType dtype, const Generator& generator, Location where) {
  return drawn(kBernoulli, BernoulliAttributes{shape, dtype, p}, generator, where);
}
Tensor bernoulli(const Tensor& p, const Generator& generator, Location where) {
  return apply_op(kBernoulliOf, nullptr, where, generator.draw(where), p);
}

}  // namespace diptych
