// cumsum: running sums along an axis.

#include "framework/kernels/dense.h"
#include "framework/kernels/reduction.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lines.h"
#include "framework/ops/reduction.h"
#include "framework/ops/reduction_ops.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

template <class T>
struct Scan {
  DIPTYCH_INLINE static void run(const Lines* lines, const ScanAttributes* attributes, const T* in, T* out) {
    const std::int64_t inner = lines->inner;
    if (inner == 1) {
      return run_rows(lines->outer, lines->length, *attributes, in, out);
    }
    const std::int64_t step = attributes->reverse ? -inner : inner;
    const std::int64_t first = attributes->reverse ? (lines->length - 1) * inner : 0;
    for (std::int64_t o = 0; o < lines->outer && lines->length > 0; ++o) {
      const T* from = in + o * lines->length * inner + first;
      T* to = out + o * lines->length * inner + first;
      for (std::int64_t i = 0; i < inner; ++i) {
        to[i] = attributes->exclusive ? T(0) : from[i];
      }
      for (std::int64_t k = 1; k < lines->length; ++k) {
        const T* added = attributes->exclusive ? from : from + step;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < inner; ++i) {
          to[i + step] = kernels::SumCombine::apply(to[i], added[i]);
        }
        from += step;
        to += step;
      }
    }
  }

  /// Handles rows that are contiguous in memory, several at a time, because each sum waits for the one before it.
  DIPTYCH_INLINE static void run_rows(std::int64_t rows, std::int64_t length, const ScanAttributes& attributes,
                                      const T* in, T* out) {
    constexpr std::int64_t kRows = 8;
    std::int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      scan<kRows>(length, attributes, in + row * length, out + row * length);
    }
    for (; row < rows; ++row) {
      scan<1>(length, attributes, in + row * length, out + row * length);
    }
  }

  template <int kRows>
  DIPTYCH_INLINE static void scan(std::int64_t length, const ScanAttributes& attributes, const T* in, T* out) {
    T totals[kRows] = {};
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = attributes.reverse ? length - 1 - k : k;
      for (int row = 0; row < kRows; ++row) {
        // The first sum is the element itself: 0 + -0 would give 0.
        const T before = totals[row];
        const T x = in[row * length + at];
        totals[row] = k == 0 && !attributes.exclusive ? x : kernels::SumCombine::apply(before, x);
        out[row * length + at] = attributes.exclusive ? before : totals[row];
      }
    }
  }
};

void cumsum_kernel(const KernelCall& call) {
  const auto* attributes = static_cast<const ScanAttributes*>(call.attributes);
  const Lines lines(call.output.type->shape, attributes->axis);
  const kernels::Dense input(call.inputs[0]);
  visit_computing(call.output.type->dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, bfloat16>) {
      PerIsa<Scan<T>>::active()(&lines, attributes, static_cast<const T*>(input.data()),
                                static_cast<T*>(call.output.data));
    }
  });
}

const Op kCumsum{
    {.name = "cumsum",
     .doc = "Running sums along an axis",
     .inputs = 1,
     .attributes = &attribute_type<ScanAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           check_domain<Domain::numeric>(call, call.input(0).dtype);
           checked_axis(call, call.as<ScanAttributes>().axis);
           output = call.input(0);
         },
     .kernel = kernels::through_float<cumsum_kernel>,
     .vjp = [](const VjpCall& v) -> Gradients {
       const auto& attributes = v.as<ScanAttributes>();
       return {cumsum(v.cotangent, static_cast<int>(attributes.axis), attributes.exclusive, !attributes.reverse)};
     },
     .linear = 1,
     .flops = flops_per_element<1>,
     .samples =
         [] {
           std::vector<Sample> samples;
           for (DType dtype : kNumbers) {
             for (const bool exclusive : {false, true}) {
               for (const bool reverse : {false, true}) {
                 const double low = dtype == DType::uint8 ? 0 : -2;
                 samples.push_back(with({sample(dtype, {5, 17}, low)}, ScanAttributes{1, exclusive, reverse}));
                 samples.push_back(with({sample(dtype, {5, 17}, low)}, ScanAttributes{0, exclusive, reverse}));
               }
             }
           }
           samples.push_back(with({transposed(sample(DType::float64, {5, 7}))}, ScanAttributes{1}));
           samples.push_back(with({sample(DType::float64, {2, 0, 3})}, ScanAttributes{1}));
           return samples;
         },
     .family = "reduction"}};

}  // namespace

namespace op {
const OpDef& cumsum = *kCumsum;
}  // namespace op

Tensor cumsum(const Tensor& x, int axis, bool exclusive, bool reverse, Location where) {
  const ScanAttributes attributes{normalise_axis(axis, x.rank(), "cumsum", where), exclusive, reverse};
  const bool wrong = !is_floating(x.dtype()) && x.dtype() != DType::int64;
  return apply_op(kCumsum, &attributes, where, wrong ? cast(x, DType::int64, where) : x);
}

}  // namespace diptych
