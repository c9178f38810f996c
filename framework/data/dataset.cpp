#include "framework/data/dataset.h"

#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "framework/core/tensor_body.h"

namespace diptych::data {
namespace {

Tensor select_rows(const Tensor& tensor, std::span<const std::int64_t> indices) {
  internal_check(tensor.is_contiguous(), "datasets are dense");
  make_ready(*tensor.body());
  const std::int64_t rows = tensor.shape()[0];
  Shape shape = tensor.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor result = Tensor::empty(tensor.dtype(), shape);
  const std::size_t bytes = rows == 0 ? 0 : static_cast<std::size_t>(tensor.numel() / rows) * size_of(tensor.dtype());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows) {
      throw Error(fmt::format("dataset: index {} is outside [0, {})", indices[i], rows));
    }
    std::memcpy(result.body()->bytes() + i * bytes,
                tensor.body()->bytes() + static_cast<std::size_t>(indices[i]) * bytes, bytes);
  }
  return result;
}

}  // namespace

Dataset Dataset::select(std::span<const std::int64_t> indices) const {
  return {select_rows(inputs, indices), select_rows(labels, indices)};
}

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[rng.below(i)]);
  }
  return order;
}

Split split(const Dataset& all, double test_fraction, std::uint64_t seed) {
  const std::vector<std::int64_t> order = permutation(all.size(), seed);
  const auto held_out = static_cast<std::size_t>(static_cast<double>(order.size()) * test_fraction);
  const std::span<const std::int64_t> indices(order);
  return {all.select(indices.subspan(held_out)), all.select(indices.first(held_out))};
}

Batches::Batches(const Dataset& dataset, std::int64_t batch_size, std::uint64_t seed)
    : dataset_(dataset), batch_size_(batch_size), seed_(seed) {
  if (batch_size < 1 || batch_size > dataset.size()) {
    throw Error(fmt::format("batches: a batch size of {} doesn't fit {} examples", batch_size, dataset.size()));
  }
}

Dataset Batches::operator[](std::int64_t step) {
  const std::int64_t epoch = step / per_epoch();
  if (epoch != epoch_) {
    // Mixed so that neighbouring epochs and seeds don't share streams.
    order_ = permutation(dataset_.size(), seed_ * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(epoch));
    epoch_ = epoch;
  }
  const std::int64_t start = step % per_epoch() * batch_size_;
  return dataset_.select(std::span<const std::int64_t>(order_).subspan(static_cast<std::size_t>(start),
                                                                       static_cast<std::size_t>(batch_size_)));
}

}  // namespace diptych::data
