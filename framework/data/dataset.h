#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "framework/core/rng.h"

namespace diptych::data {

/// inputs: f32 or i64[N, ...], labels: i64[N] or i64[N, ...].
struct Dataset {
  Tensor inputs;
  Tensor labels;

  std::int64_t size() const { return labels.shape()[0]; }
  /// The rows of `indices`, as dense tensors. Throws Error for an index outside the dataset.
  Dataset select(std::span<const std::int64_t> indices) const;
};

struct Split {
  Dataset train;
  Dataset test;
};

/// The first `test_fraction` of a seeded permutation is held out.
Split split(const Dataset& all, double test_fraction, std::uint64_t seed);

/// Batches of a fixed size in a seeded order that changes with the epoch. A remainder that doesn't fill a batch is left
/// out, so that every batch has the same shape.
class Batches {
 public:
  Batches(const Dataset& dataset, std::int64_t batch_size, std::uint64_t seed);
  std::int64_t per_epoch() const { return dataset_.size() / batch_size_; }
  /// Batch `step` of the endless sequence of epochs.
  Dataset operator[](std::int64_t step);

 private:
  Dataset dataset_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

/// 0, 1, ..., n - 1 in a seeded order (Fisher-Yates).
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed);

/// Handwritten digits, 64 pixels scaled to [0, 1], from a gzipped CSV (see data/README.md for its origin). Throws
/// FileError.
Dataset load_digits(const std::filesystem::path& path);
/// The file that comes with Diptych, found through DIPTYCH_DATA, in the source tree, or in the installed tree.
std::filesystem::path digits_path();

}  // namespace diptych::data
