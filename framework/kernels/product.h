#pragma once

#include <cstdint>
#include <limits>

namespace diptych::kernels {

/// Columns of a product are computed in whole vectors of this length.
inline constexpr std::int64_t kProductStep = 16;
constexpr std::int64_t whole_vectors(std::int64_t columns) {
  return (columns + kProductStep - 1) / kProductStep * kProductStep;
}

/// The operands of a product as strided matrices: a[i][k] at a + i * a_row + k * a_step, b[k][j] at b + k * b_step + j.
template <class T>
struct StridedOperands {
  static constexpr bool kFetches = true;

  const T* a;
  std::int64_t a_row;
  std::int64_t a_step;
  const T* b;
  std::int64_t b_step;

  const T* left_row(std::int64_t i) const { return a + i * a_row; }

  /// Walks along k.
  class Walk {
   public:
    Walk(const StridedOperands& of, std::int64_t k)
        : left_(k * of.a_step), a_step_(of.a_step), right_(of.b + k * of.b_step), b_step_(of.b_step) {}
    std::int64_t left() const { return left_; }
    const T* right() const { return right_; }
    void step() {
      left_ += a_step_;
      right_ += b_step_;
    }

   private:
    std::int64_t left_;
    std::int64_t a_step_;
    const T* right_;
    std::int64_t b_step_;
  };
};

/// The left side as lists: a[i][k] at rows[i] + at[k]. The right side as above.
template <class T>
struct ListedLeft {
  static constexpr bool kFetches = true;

  const T* const* rows;
  const std::int64_t* at;
  const T* b;
  std::int64_t b_step;

  const T* left_row(std::int64_t i) const { return rows[i]; }

  class Walk {
   public:
    Walk(const ListedLeft& of, std::int64_t k) : at_(of.at + k), right_(of.b + k * of.b_step), b_step_(of.b_step) {}
    std::int64_t left() const { return *at_; }
    const T* right() const { return right_; }
    void step() {
      ++at_;
      right_ += b_step_;
    }

   private:
    const std::int64_t* at_;
    const T* right_;
    std::int64_t b_step_;
  };
};

/// Both as lists: a[i][k] at rows[i] + at[k], b[k][j] at b[k] + j, which was gathered just before.
template <class T>
struct ListedOperands {
  static constexpr bool kFetches = false;

  const T* const* rows;
  const std::int64_t* at;
  const T* const* b;

  const T* left_row(std::int64_t i) const { return rows[i]; }

  class Walk {
   public:
    Walk(const ListedOperands& of, std::int64_t k) : at_(of.at + k), b_(of.b + k) {}
    std::int64_t left() const { return *at_; }
    const T* right() const { return *b_; }
    void step() {
      ++at_;
      ++b_;
    }

   private:
    const std::int64_t* at_;
    const T* const* b_;
  };
};

/// What the first rows of a product fetch while they compute, because it comes from beyond the second cache.
template <class T>
struct FetchedRight {
  bool any = false;
  /// By default a little ahead of where the right side is read, and at its end what the next product reads, with the
  /// same steps; null: nothing.
  const T* next = nullptr;
  /// Instead, a matrix that will be copied before it is read: the right side of the next product, or the rows of the
  /// left side that come next; its rows are `ahead_step` apart. No part of the chains begins to fetch beyond
  /// `ahead_rows`.
  const T* ahead = nullptr;
  std::int64_t ahead_step = 0;
  std::int64_t ahead_rows = std::numeric_limits<std::int64_t>::max();
};

/// c[i][j] = start[i][j] + the sum over k of a[i][k] * b[k][j]. The left side is read in place; the right side, start
/// and c have room for whole vectors. Each sum is one chain of fma in the order of k, whatever the tile, so the bits
/// are the same on every instruction set.
template <class T, class Operands = ListedOperands<T>>
struct ProductCall {
  std::int64_t row_count;
  std::int64_t columns;
  std::int64_t depth;
  Operands operands;
  const T* start;  ///< null: the sum alone
  std::int64_t start_pitch;
  T* c;
  std::int64_t c_pitch;
  FetchedRight<T> fetched = {};
  bool result_is_far = false;  ///< beyond the second cache: its tiles are fetched while they are computed
};

/// A pitch with that room for `columns`: an odd number of vectors, so that rows spread over the sets of a cache.
constexpr std::int64_t product_pitch(std::int64_t columns) {
  return ((whole_vectors(columns) / kProductStep + 1) | 1) * kProductStep;
}

template <class T, class Operands>
void product(const ProductCall<T, Operands>& call);

}  // namespace diptych::kernels
