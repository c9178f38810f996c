// Matrix products bit for bit against their definition (docs/numerics.md): blocks of 256 products, each one chain of
// fma. Whatever the layout, the instruction set and the number of threads, packed ahead or not, and in eager and graph.
// Their accuracy is what these chains have by a formula.

#include "framework/kernels/matrix_product.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include <gtest/gtest.h>

#include "framework/core/tensor_body.h"
#include "framework/diptych.h"
#include "tests/ops/layouts.h"
#include "tests/support/with_gemm.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

struct Sizes {
  std::int64_t m, n, k;
};

/// Square, skinny, with edges of every kind, sums of one block, of whole blocks and of parts, several panels of
/// columns, rows that lie in few sets of the cache, and right sides that are fetched from afar (kFar).
const std::vector<Sizes> kSizes = {
    {1, 1, 1},      {1, 1, 500},   {3, 1, 7},     {70, 1, 257},    {1, 5, 3},      {1, 16, 300},   {1, 250, 256},
    {2, 33, 10},    {4, 24, 257},  {5, 7, 3},     {8, 48, 512},    {9, 49, 513},   {16, 17, 40},   {17, 16, 600},
    {31, 200, 255}, {64, 10, 128}, {129, 193, 5}, {130, 290, 260}, {3, 400, 33},   {33, 400, 33},  {20, 384, 1},
    {1, 7, 1},      {1, 600, 257}, {5, 700, 300}, {20, 256, 600},  {40, 520, 260}, {50, 256, 140}, {66, 192, 200}};

template <class T>
std::vector<T> by_definition(const Tensor& a, const Tensor& b, const Tensor& start) {
  const std::int64_t m = a.shape()[0];
  const std::int64_t depth = a.shape()[1];
  const std::int64_t n = b.shape()[1];
  const std::vector<T> left = a.to_vector<T>();
  const std::vector<T> right = b.to_vector<T>();
  const std::vector<T> first = start.defined() ? start.to_vector<T>() : std::vector<T>();
  std::vector<T> result;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T total = start.defined() ? first[static_cast<std::size_t>(j)] : T(0);
      for (std::int64_t begin = 0; begin < depth; begin += 256) {
        T sum = 0;
        for (std::int64_t k = begin; k < std::min(begin + 256, depth); ++k) {
          sum =
              std::fma(left[static_cast<std::size_t>(i * depth + k)], right[static_cast<std::size_t>(k * n + j)], sum);
        }
        total = begin == 0 && !start.defined() ? sum : total + sum;
      }
      result.push_back(total);
    }
  }
  return result;
}

/// Runs `fn` with every instruction set that the machine has, on one to four threads.
template <class Fn>
void with_each_isa(const Fn& fn) {
  for_each_isa([&](Isa isa) {
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(std::string(kIsaNames[static_cast<std::size_t>(isa)]) + ", threads: " + std::to_string(threads));
      const WithThreads some(threads, true);
      fn();
    }
  });
}

template <class T>
kernels::Matrix<T> matrix_of(const Tensor& x) {
  return {static_cast<const T*>(x.body()->data), x.shape()[0], x.shape()[1], x.strides()[0], x.strides()[1]};
}

/// Whether the bits are the same, but for which NaN it is where there is one: that isn't defined.
template <class T>
bool same_but_for_nans(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) {
    return std::isnan(x) || std::isnan(y) ? std::isnan(x) && std::isnan(y) : std::memcmp(&x, &y, sizeof(T)) == 0;
  });
}

template <class T>
class MatrixProduct : public ::testing::Test {
 protected:
  static constexpr DType kType = std::is_same_v<T, float> ? DType::float32 : DType::float64;

  /// Every pair of layouts on one thread and on three, if `thorough`; else, on two and four, each layout of both sides.
  void expect_defined(const Tensor& a, const Tensor& b, const Tensor& bias, const std::string& what, bool thorough) {
    const std::vector<T> wanted = by_definition<T>(a, b, bias);
    const auto product = [&](const Tensor& x, const Tensor& y) {
      return bias.defined() ? linear(x, y, bias) : matmul(x, y);
    };
    const std::vector<Tensor> left = layouts(a);
    const std::vector<Tensor> right = layouts(b);
    with_each_isa([&] {
      for (std::size_t j = 0; j < right.size(); ++j) {
        for (std::size_t i = 0; i < left.size(); ++i) {
          const bool is_usual = i == j;
          if (!is_usual && (!thorough || thread_count() % 2 == 0)) {
            continue;
          }
          const auto where = [&] {
            return what + ", " + to_string(a.type()) + " in layout " + std::to_string(i) + ", " + to_string(b.type()) +
                   " in layout " + std::to_string(j);
          };
          ASSERT_TRUE(same_but_for_nans(wanted, product(left[i], right[j]).template to_vector<T>())) << where();
          if (is_usual || i == 0 || j == 0) {
            ASSERT_TRUE(same_but_for_nans(wanted, packed(left[i], right[j], bias))) << where() << ", packed ahead";
          }
        }
      }
    });
  }

 private:
  static std::vector<T> packed(const Tensor& a, const Tensor& b, const Tensor& bias) {
    const kernels::Matrix<T> right = matrix_of<T>(b);
    Tensor memory = zeros({kernels::PackedMatrix<T>::size(right.rows, right.columns)}, kType);
    const auto ahead = kernels::PackedMatrix<T>::pack(right, memory.mutable_data<T>());
    Tensor result = full({a.shape()[0], right.columns}, 7, kType);
    kernels::multiply(matrix_of<T>(a), ahead, bias.defined() ? bias.data<T>() : nullptr,
                      kernels::Result<T>{result.mutable_data<T>(), right.columns});
    return result.to_vector<T>();
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MatrixProduct, Types);

TYPED_TEST(MatrixProduct, IsItsDefinitionInEveryLayout) {
  const WithGemm tiles(kernels::Gemm::tiles);
  for (const auto& [m, n, k] : kSizes) {
    Rng rng(static_cast<std::uint64_t>(m * 1000 + n * 10 + k));
    const Tensor a = rng.normal({m, k}, 0, 1, this->kType);
    const Tensor b = rng.normal({k, n}, 0, 1, this->kType);
    this->expect_defined(a, b, Tensor(), "matmul", true);
    this->expect_defined(a, b, rng.normal({n}, 0, 1, this->kType), "linear", false);
  }
}

/// A left side that is fetched from afar, too: of the rows that are looked at, each is by the definition.
TYPED_TEST(MatrixProduct, OfManyRowsIsItsDefinition) {
  const WithGemm tiles(kernels::Gemm::tiles);
  const std::int64_t rows = 4200;
  Rng rng(2);
  const Tensor a = rng.normal({rows, 260}, 0, 1, this->kType);
  const Tensor b = rng.normal({260, 120}, 0, 1, this->kType);
  const auto some = [&](const Tensor& x) {
    std::vector<Tensor> parts;
    for (std::int64_t row = 0; row < rows; row += 467) {
      parts.push_back(slice(x, 0, row, row + 1));
    }
    parts.push_back(slice(x, 0, rows - 1, rows));
    return concat(parts, 0);
  };
  const std::vector<TypeParam> wanted = by_definition<TypeParam>(some(a), b, Tensor());
  with_each_isa([&] {
    for (const Tensor& left : {a, transpose(contiguous(transpose(a)))}) {
      ASSERT_TRUE(same_but_for_nans(wanted, some(matmul(left, b)).template to_vector<TypeParam>()));
    }
  });
}

/// `x` with some of its elements replaced, the last one too.
template <class T>
Tensor strewn(Rng& rng, const Tensor& x, const std::vector<T>& specials) {
  std::vector<T> values = x.to_vector<T>();
  const std::vector<double> chance = rng.uniform(x.shape(), 0, 1, DType::float64).to_vector<double>();
  std::size_t next = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (chance[i] > 0.98 || i + 1 == values.size()) {
      values[i] = specials[next++ % specials.size()];
    }
  }
  return Tensor::from(values, x.shape());
}

TYPED_TEST(MatrixProduct, KeepsSubnormalsZerosAndInfinities) {
  const WithGemm tiles(kernels::Gemm::tiles);
  using Limits = std::numeric_limits<TypeParam>;
  const std::vector<TypeParam> finite = {Limits::denorm_min(), -Limits::min() / 3, -TypeParam(0), Limits::min()};
  const std::vector<TypeParam> all = {Limits::infinity(), -TypeParam(0),       Limits::denorm_min(), -Limits::max(),
                                      TypeParam(0),       -Limits::infinity(), Limits::quiet_NaN(),  Limits::max()};
  // Of one block, of a row, of a column, and of several blocks, tiles and panels.
  for (const auto& [m, n, k] : std::vector<Sizes>{{13, 19, 20}, {1, 300, 300}, {70, 1, 300}, {33, 400, 513}}) {
    for (const auto& specials : {finite, all}) {
      Rng rng(static_cast<std::uint64_t>(m + k));
      const Tensor a = strewn(rng, rng.normal({m, k}, 0, 1, this->kType), specials);
      const Tensor b = strewn(rng, rng.normal({k, n}, 0, 1, this->kType), specials);
      this->expect_defined(a, b, Tensor(), "special values", m == 13);
      // One kind alone, so that most elements aren't touched: the others stay as they are.
      for (std::size_t kind = 0; kind < (m == 13 ? specials.size() : 1); ++kind) {
        this->expect_defined(strewn(rng, rng.normal({m, k}, 0, 1, this->kType), std::vector{specials[kind]}),
                             rng.normal({k, n}, 0, 1, this->kType), Tensor(), "some of one kind", m == 13);
      }
    }
  }
}

TEST(Gemm, NaNStaysInItsRow) {
  const WithGemm tiles(kernels::Gemm::tiles);
  std::vector<float> values(20 * 30, 1);
  values[7 * 30 + 11] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> c = matmul(Tensor::from(values, {20, 30}), ones({30, 50})).to_vector<float>();
  for (std::size_t i = 0; i < c.size(); ++i) {
    EXPECT_EQ(std::isnan(c[i]), i / 50 == 7) << "element " << i;
  }
}

TEST(Gemm, OfBfloat16IsThatOfFloatRoundedOnce) {
  const WithGemm tiles(kernels::Gemm::tiles);
  Rng rng(5);
  const Tensor a = cast(rng.normal({9, 500}), DType::bfloat16);
  const Tensor b = cast(rng.normal({500, 21}), DType::bfloat16);
  const Tensor wide = matmul(cast(a, DType::float32), cast(b, DType::float32));
  EXPECT_TRUE(bitwise_equal(matmul(a, b), cast(wide, DType::bfloat16)));
}

TEST(Gemm, OfStacksIsThatOfEachMatrix) {
  const WithGemm tiles(kernels::Gemm::tiles);
  Rng rng(6);
  const Tensor x = rng.normal({3, 2, 17, 40});
  const Tensor heads = permute(rng.normal({3, 50, 2, 40}), {0, 2, 3, 1});  // [3, 2, 40, 50], as attention reads keys
  const Tensor one = rng.normal({40, 50});
  const Tensor by_heads = matmul(x, heads);
  const Tensor by_one = matmul(x, one);
  const Tensor transposed_rows = matmul(transpose(contiguous(transpose(x))), one);
  EXPECT_TRUE(bitwise_equal(by_one, transposed_rows));
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      const auto at = [&](const Tensor& t) { return select(select(t, 0, i), 0, j); };
      EXPECT_TRUE(bitwise_equal(at(by_heads), matmul(contiguous(at(x)), contiguous(at(heads)))));
      EXPECT_TRUE(bitwise_equal(at(by_one), matmul(contiguous(at(x)), one)));
    }
  }
}

/// The error's root mean square, in units of the sum of the products' sizes, against a sum in double.
double error_of(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.shape()[0];
  const std::int64_t depth = a.shape()[1];
  const std::int64_t n = b.shape()[1];
  const std::vector<float> left = a.to_vector<float>();
  const std::vector<float> right = b.to_vector<float>();
  const std::vector<float> product = matmul(a, b).to_vector<float>();
  double squares = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double exact = 0;  // of two floats exact, so that the sum alone rounds
      double size = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double term = static_cast<double>(left[static_cast<std::size_t>(i * depth + k)]) *
                            static_cast<double>(right[static_cast<std::size_t>(k * n + j)]);
        exact += term;
        size += std::abs(term);
      }
      const double error = (static_cast<double>(product[static_cast<std::size_t>(i * n + j)]) - exact) / size;
      squares += error * error;
    }
  }
  return std::sqrt(squares / static_cast<double>(m * n));
}

/// The same of one sum of `depth` products of standard normal numbers, by the definition: chains of at most 256 fma,
/// whose sums are added up in order. A partial sum of k products has the variance k, rounding it changes it by a part
/// whose mean square is u^2 / 3 E[1 / mantissa^2], with 1 / mantissa^2 = 3 / (8 ln 2) on average [Benford]; the
/// products' sizes are 2 / pi on average.
double error_of_blocked_chains(std::int64_t depth) {
  constexpr std::int64_t kBlock = 256;
  constexpr double kUnit = 0x1p-24;
  double rounded = 0;  // the variances of all partial sums that are rounded
  for (std::int64_t begin = 0; begin < depth; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, depth);
    for (std::int64_t k = begin; k < end; ++k) {
      rounded += static_cast<double>(k - begin + 1);
    }
    rounded += begin > 0 ? static_cast<double>(end) : 0;
  }
  const double mean_square = kUnit * kUnit / 3 * 3 / (8 * std::numbers::ln2);
  return std::sqrt(mean_square * rounded) / (static_cast<double>(depth) * 2 / std::numbers::pi);
}

TEST(Gemm, ErrsAsMuchAsBlockedChainsOf256Do) {
  for (const std::int64_t depth : {64, 197, 256, 512, 768, 3072}) {
    Rng rng(static_cast<std::uint64_t>(depth));
    const Tensor a = rng.normal({128, depth});
    const Tensor b = rng.normal({depth, 128});
    EXPECT_LE(error_of(a, b), 1.03 * error_of_blocked_chains(depth)) << "sums of " << depth;
  }
}

TEST(Gemm, ByOpenBlasIsTheSameInEagerAndGraph) {
  const WithGemm blas(kernels::Gemm::openblas);
  Rng rng(8);
  const Tensor x = rng.normal({6, 40, 30});
  const Tensor w = rng.normal({50, 30});
  const auto program = [](const std::vector<Tensor>& in) {  // without the copies, BLAS would get other flags
    return matmul(contiguous(transpose(contiguous(transpose(in[0])))), transpose(contiguous(in[1])));
  };
  auto compiled = jit(program);
  const std::vector<Tensor> inputs = {x, w};
  EXPECT_TRUE(bitwise_equal(program(inputs), compiled(inputs)));
}

}  // namespace
}  // namespace diptych::testing
