// einsum against its definition: a loop over every letter.

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/reference_array.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Operands and result by letters, without "...": the sum over all letters of the product of elements.
std::vector<double> by_definition(const std::vector<std::string>& terms, const std::string& result,
                                  const std::vector<Tensor>& tensors, Shape& shape) {
  std::map<char, std::int64_t> lengths;
  std::vector<ReferenceArray> arrays;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    arrays.emplace_back(tensors[i]);
    for (std::size_t axis = 0; axis < terms[i].size(); ++axis) {
      std::int64_t& length = lengths.try_emplace(terms[i][axis], 1).first->second;
      const std::int64_t mine = tensors[i].shape()[static_cast<int>(axis)];
      length = mine == 1 ? length : mine;
    }
  }
  std::string letters = result;
  for (const auto& [letter, length] : lengths) {
    if (result.find(letter) == std::string::npos) {
      letters += letter;
    }
  }
  Shape all;
  shape = Shape();
  std::int64_t summed = 1;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    all.push_back(lengths[letters[i]]);
    if (i < result.size()) {
      shape.push_back(all.back());
    } else {
      summed *= all.back();
    }
  }
  const std::vector<double> products = by_index(all, [&](const Index& index) {
    double value = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      Index own;
      for (std::size_t axis = 0; axis < terms[i].size(); ++axis) {
        const bool single = arrays[i].shape[static_cast<int>(axis)] == 1;
        own.push_back(single ? 0 : index[letters.find(terms[i][axis])]);
      }
      value *= arrays[i][own];
    }
    return value;
  });
  std::vector<double> sums(static_cast<std::size_t>(shape.product()), 0);
  for (std::size_t i = 0; i < products.size(); ++i) {
    sums[i / static_cast<std::size_t>(summed)] += products[i];
  }
  return sums;
}

struct EinsumCase {
  const char* equation;
  std::vector<std::string> terms;
  std::string result;
  std::vector<Shape> shapes;
};

class Einsum : public ::testing::TestWithParam<EinsumCase> {};

TEST_P(Einsum, FollowsTheDefinition) {
  const EinsumCase& c = GetParam();
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    operands.push_back(Rng(i + 1).normal(c.shapes[i], 0, 1, DType::float64));
  }
  Shape shape;
  const std::vector<double> expected = by_definition(c.terms, c.result, operands, shape);
  const Tensor actual = einsum(c.equation, operands);
  ASSERT_EQ(actual.shape(), shape);
  const std::vector<double> values = actual.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-12 * (1 + std::fabs(expected[i])));
  }
  auto graph = jit([&](const std::vector<Tensor>& x) { return einsum(c.equation, x); });
  EXPECT_TRUE(bitwise_equal(graph(operands), actual));
}

INSTANTIATE_TEST_SUITE_P(
    Equations, Einsum,
    ::testing::Values(
        EinsumCase{"ij->ji", {"ij"}, "ji", {{3, 4}}}, EinsumCase{"ijk->j", {"ijk"}, "j", {{2, 3, 4}}},
        EinsumCase{"ij->", {"ij"}, "", {{3, 4}}}, EinsumCase{"ba", {"ba"}, "ab", {{3, 4}}},
        EinsumCase{"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
        EinsumCase{"ij,jk", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
        EinsumCase{"ij,jk->ki", {"ij", "jk"}, "ki", {{3, 4}, {4, 5}}},
        EinsumCase{"ji,kj->ik", {"ji", "kj"}, "ik", {{4, 3}, {5, 4}}}, EinsumCase{"i,i->", {"i", "i"}, "", {{7}, {7}}},
        EinsumCase{"i,j->ij", {"i", "j"}, "ij", {{3}, {4}}}, EinsumCase{"i,j->ji", {"i", "j"}, "ji", {{3}, {4}}},
        EinsumCase{"bij,bjk->bik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
        EinsumCase{"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}, "bhqk", {{2, 5, 3, 4}, {2, 6, 3, 4}}},
        EinsumCase{"bhqk,bkhd->bqhd", {"bhqk", "bkhd"}, "bqhd", {{2, 3, 5, 6}, {2, 6, 3, 4}}},
        EinsumCase{"btd,dhe->bhte", {"btd", "dhe"}, "bhte", {{2, 5, 4}, {4, 3, 2}}},
        EinsumCase{"bhte,hed->btd", {"bhte", "hed"}, "btd", {{2, 3, 5, 2}, {3, 2, 4}}},
        EinsumCase{"abcd,cdef->abef", {"abcd", "cdef"}, "abef", {{2, 3, 4, 2}, {4, 2, 3, 2}}},
        EinsumCase{"ijk,ik->j", {"ijk", "ik"}, "j", {{2, 3, 4}, {2, 4}}},
        EinsumCase{"ijk,l->il", {"ijk", "l"}, "il", {{2, 3, 4}, {5}}},
        EinsumCase{"ij,ij->ij", {"ij", "ij"}, "ij", {{3, 4}, {3, 4}}},
        EinsumCase{"ij,ij->i", {"ij", "ij"}, "i", {{3, 4}, {3, 4}}},
        EinsumCase{"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 1}, {4, 5}}},
        EinsumCase{"bij,bjk->bik", {"bij", "bjk"}, "bik", {{1, 3, 4}, {2, 4, 5}}},
        EinsumCase{"ij,jk,kl->il", {"ij", "jk", "kl"}, "il", {{2, 3}, {3, 4}, {4, 5}}},
        EinsumCase{"ij,ik,il->jkl", {"ij", "ik", "il"}, "jkl", {{4, 2}, {4, 3}, {4, 5}}},
        EinsumCase{" i j , j -> i ", {"ij", "j"}, "i", {{3, 4}, {4}}},
        EinsumCase{"...ij,...jk->...ik", {"abij", "bjk"}, "abik", {{2, 3, 4, 5}, {3, 5, 2}}},
        EinsumCase{"...i,i->...", {"abi", "i"}, "ab", {{2, 3, 4}, {4}}},
        EinsumCase{"i...,i", {"iab", "i"}, "ab", {{4, 2, 3}, {4}}}, EinsumCase{"ii->i", {"ii"}, "i", {{4, 4}}},
        EinsumCase{"ii", {"ii"}, "", {{4, 4}}}, EinsumCase{"...ii->...i", {"abii"}, "abi", {{2, 3, 4, 4}}},
        EinsumCase{"ibiji,jj->jb", {"ibiji", "jj"}, "jb", {{3, 2, 3, 4, 3}, {4, 4}}},
        EinsumCase{"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 0}, {0, 5}}},
        EinsumCase{"bij,bjk->bik", {"bij", "bjk"}, "bik", {{0, 3, 4}, {0, 4, 5}}},
        EinsumCase{"Ij,jK->KI", {"Ij", "jK"}, "KI", {{3, 4}, {4, 5}}}));

TEST(EinsumGradient, FollowsTheContraction) {
  auto f = grad(
      [](const Tensor& a, const Tensor& b) {
        const Tensor y = einsum("bqhd,bkhd->bhqk", {a, b});
        return sum(mul(y, y));
      },
      std::vector{0, 1});
  const Tensor a = Rng(1).normal({2, 3, 2, 4}, 0, 1, DType::float64);
  const Tensor b = Rng(2).normal({2, 5, 2, 4}, 0, 1, DType::float64);
  const std::vector<Tensor> gradients = f(a, b);
  // d/da sum y^2 = 2 y b.
  const Tensor expected = einsum("bhqk,bkhd->bqhd", {einsum("bqhd,bkhd->bhqk", {a, b}), b}) * 2.0;
  const auto actual = gradients[0].to_vector<double>();
  const auto wanted = expected.to_vector<double>();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(actual[i], wanted[i], 1e-11);
  }
}

TEST(EinsumErrors, NameThePosition) {
  const Tensor m = zeros({2, 3});
  const auto message = [&](const char* equation, const std::vector<Tensor>& operands) {
    return message_of<Error>([&] { einsum(equation, operands); });
  };
  EXPECT_THAT(message("ij,j?->i", {m, m}), AllOf(HasSubstr("unexpected '?'"), HasSubstr("position 4")));
  EXPECT_THAT(message("ij->ii", {m}), AllOf(HasSubstr("'i' stands twice"), HasSubstr("position 5")));
  EXPECT_THAT(message_of<ShapeError>([&] { einsum("ii->i", {m}); }), HasSubstr("'i' of \"ii->i\" has lengths 2 and 3"));
  EXPECT_THAT(message("ij->ijk", {m}), AllOf(HasSubstr("'k' of the result"), HasSubstr("position 6")));
  EXPECT_THAT(message("ij->i->j", {m}), AllOf(HasSubstr("unexpected '-'"), HasSubstr("position 5")));
  EXPECT_THAT(message("ij->i,j", {m}), HasSubstr("unexpected ','"));
  EXPECT_THAT(message("i..j->i", {m}), HasSubstr("unexpected '.'"));
  EXPECT_THAT(message("...i...->i", {m}), HasSubstr("a second \"...\""));
  EXPECT_THAT(message("ij,jk->ik", {m}), HasSubstr("2 operands, 1 were given"));
  EXPECT_THAT(message("", {}), HasSubstr("1 operands, 0 were given"));
  EXPECT_THAT(message_of<ShapeError>([&] { einsum("ijk->i", {m}); }), HasSubstr("names 3 axes"));
  EXPECT_THAT(message_of<ShapeError>([&] { einsum("i->i", {m}); }), HasSubstr("names 1 axes"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                einsum("ij,jk->ik", {m, m});
              }),
              AllOf(HasSubstr("'j'"), HasSubstr("length 2 in operand 1 and 3 before")));
  EXPECT_THROW(
      einsum("abcdefgh,ijklmnop->abcdefghijklmnop", {zeros({1, 1, 1, 1, 1, 1, 1, 1}), zeros({1, 1, 1, 1, 1, 1, 1, 1})}),
      ShapeError);
}

}  // namespace
}  // namespace diptych::testing
