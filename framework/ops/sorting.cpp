#include "framework/ops/sorting.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "framework/kernels/dense.h"
#include "framework/ops/indexing.h"
#include "framework/ops/indexing_ops.h"
#include "framework/ops/lines.h"
#include "framework/ops/storage_types.h"
#include "framework/ops/view.h"

namespace diptych {
namespace {

using namespace ops;

template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Maps an element to an unsigned number of the same order: NaN last, -0 equal to 0.
template <class T>
SortKey<T> sort_key(T x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return sort_key(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = SortKey<T>;
    constexpr Bits kSign = Bits(1) << (sizeof(T) * 8 - 1);
    if (x != x) {
      return std::numeric_limits<Bits>::max();
    }
    const Bits bits = std::bit_cast<Bits>(x + T(0));  // -0 + 0 is 0
    return static_cast<Bits>((bits & kSign) != 0 ? ~bits : bits | kSign);
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<std::uint64_t>(x) ^ (std::uint64_t{1} << 63U);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint32_t>(x) ^ (std::uint32_t{1} << 31U);
  } else {
    return static_cast<std::uint32_t>(x);
  }
}

/// A key and its position, ordered by both: no two are equal, so every sort is stable.
struct WideEntry {
  std::uint64_t key;
  std::int64_t index;
  WideEntry() = default;
  WideEntry(std::uint64_t k, std::int64_t i) : key(k), index(i) {}
  std::int64_t position() const { return index; }
  bool operator<(const WideEntry& other) const { return key != other.key ? key < other.key : index < other.index; }
};
/// The same packed into one number, for lines of fewer than 2^32 elements.
struct PackedEntry {
  std::uint64_t packed;
  PackedEntry() = default;
  PackedEntry(std::uint32_t key, std::int64_t i) : packed(std::uint64_t{key} << 32U | static_cast<std::uint64_t>(i)) {}
  std::int64_t position() const { return static_cast<std::int64_t>(packed & 0xFFFFFFFFU); }
  bool operator<(const PackedEntry& other) const { return packed < other.packed; }
};

/// The positions of the `k` first elements of every line, sorted.
template <class Entry, class T>
void sort_lines(const Lines& lines, const T* in, std::int64_t k, bool descending, std::int64_t* out) {
  using Key = SortKey<T>;
  const Key flip = descending ? std::numeric_limits<Key>::max() : Key(0);
  std::vector<Entry> entries(static_cast<std::size_t>(lines.length));
  const auto first = entries.begin();
  for (std::int64_t o = 0; o < lines.outer; ++o, in += lines.length * lines.inner, out += k * lines.inner) {
    for (std::int64_t i = 0; i < lines.inner; ++i) {
      for (std::int64_t j = 0; j < lines.length; ++j) {
        entries[static_cast<std::size_t>(j)] = Entry(static_cast<Key>(sort_key(in[j * lines.inner + i]) ^ flip), j);
      }
      if (k < lines.length) {
        std::nth_element(first, first + k, entries.end());
      }
      std::sort(first, first + k);
      for (std::int64_t j = 0; j < k; ++j) {
        out[j * lines.inner + i] = entries[static_cast<std::size_t>(j)].position();
      }
    }
  }
}

void sort_operand(const KernelCall& call, std::int64_t axis, std::int64_t k, bool descending) {
  const kernels::Dense input(call.inputs[0]);
  const Lines lines(call.inputs[0].type->shape, axis);
  auto* out = static_cast<std::int64_t*>(call.output.data);
  if (call.output.type->shape.product() == 0) {
    return;
  }
  visit_computing(call.inputs[0].type->dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(input.data());
    if constexpr (sizeof(SortKey<T>) == 4) {
      if (lines.length <= std::int64_t{0xFFFFFFFF}) {
        return sort_lines<PackedEntry>(lines, in, k, descending, out);
      }
    }
    sort_lines<WideEntry>(lines, in, k, descending, out);
  });
}

double comparisons(const InferCall& call, const TensorType& /*output*/) {
  return 10.0 * static_cast<double>(call.shape(0).product());
}

SampleInput values(DType dtype, const Shape& shape) {
  return sample(dtype, shape, dtype == DType::uint8 || dtype == DType::boolean ? 0 : -3, 3);  // integers: many ties
}

const Op kArgsort{
    {.name = "argsort",
     .doc = "Where the elements sorted along an axis stand",
     .inputs = 1,
     .attributes = &attribute_type<SortAttributes>,
     .infer =
         [](const InferCall& call, TensorType& output) {
           checked_axis(call, call.as<SortAttributes>().axis);
           output.dtype = DType::int64;
           output.shape = call.shape(0);
         },
     .kernel =
         [](const KernelCall& call) {
           const auto& attributes = *static_cast<const SortAttributes*>(call.attributes);
           sort_operand(call, attributes.axis, call.output.type->shape[static_cast<int>(attributes.axis)],
                        attributes.descending);
         },
     .flops = comparisons,
     .samples =
         [] {
           std::vector<Sample> samples;
           for (DType dtype : kAll) {
             samples.push_back(with({values(dtype, {5, 37})}, SortAttributes{1, false}));
             samples.push_back(with({values(dtype, {9, 4})}, SortAttributes{0, true}));
           }
           samples.push_back(with({transposed(values(DType::float32, {5, 7}))}, SortAttributes{1, false}));
           samples.push_back(with({values(DType::float32, {2, 0})}, SortAttributes{1, false}));
           return samples;
         },
     .family = "sorting"}};

const Op kTopk{{.name = "topk_indices",
                .doc = "Where the k largest or smallest elements along an axis stand",
                .inputs = 1,
                .attributes = &attribute_type<TopkAttributes>,
                .infer =
                    [](const InferCall& call, TensorType& output) {
                      const auto& attributes = call.as<TopkAttributes>();
                      const int axis = checked_axis(call, attributes.axis);
                      const std::int64_t length = call.shape(0)[axis];
                      if (attributes.k < 0 || attributes.k > length) {
                        call.fail_shape(fmt::format("k is {}, and the axis has {} elements", attributes.k, length),
                                        "take no more elements than there are");
                      }
                      output.dtype = DType::int64;
                      output.shape = call.shape(0);
                      output.shape[axis] = attributes.k;
                    },
                .kernel =
                    [](const KernelCall& call) {
                      const auto& attributes = *static_cast<const TopkAttributes*>(call.attributes);
                      sort_operand(call, attributes.axis, attributes.k, attributes.largest);
                    },
                .flops = comparisons,
                .samples =
                    [] {
                      std::vector<Sample> samples;
                      for (DType dtype : kAll) {
                        samples.push_back(with({values(dtype, {5, 37})}, TopkAttributes{6, 1, true}));
                        samples.push_back(with({values(dtype, {9, 4})}, TopkAttributes{3, 0, false}));
                      }
                      samples.push_back(with({values(DType::float32, {5, 7})}, TopkAttributes{7, 1, true}));
                      samples.push_back(with({values(DType::float32, {2, 5})}, TopkAttributes{0, 1, true}));
                      return samples;
                    },
                .family = "sorting"}};

}  // namespace

namespace op {
const OpDef& argsort = *kArgsort;
const OpDef& topk_indices = *kTopk;
}  // namespace op

Tensor argsort(const Tensor& x, int axis, bool descending, Location where) {
  const SortAttributes attributes{normalise_axis(axis, x.rank(), "argsort", where), descending};
  return apply_op(kArgsort, &attributes, where, comparable(x, where));
}

std::pair<Tensor, Tensor> sort(const Tensor& x, int axis, bool descending, Location where) {
  const SortAttributes attributes{normalise_axis(axis, x.rank(), "sort", where), descending};
  const Tensor indices = apply_op(kArgsort, &attributes, where, comparable(x, where));
  return {gather(x, static_cast<int>(attributes.axis), indices, where), indices};
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis, bool largest, Location where) {
  const TopkAttributes attributes{k, normalise_axis(axis, x.rank(), "topk", where), largest};
  const Tensor indices = apply_op(kTopk, &attributes, where, comparable(x, where));
  return {gather(x, static_cast<int>(attributes.axis), indices, where), indices};
}

}  // namespace diptych
