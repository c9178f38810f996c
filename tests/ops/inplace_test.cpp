// Updates in place: what shares the storage sees them, gradients go through them, and a stale saved tensor is an error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/diptych.h"
#include "tests/support/message_of.h"

namespace diptych {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

Tensor vector(std::initializer_list<double> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
std::vector<double> list(const Tensor& tensor) { return tensor.to_vector<double>(); }
using List = std::vector<double>;

TEST(InPlace, ViewsShareTheUpdate) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3});
  const Tensor column = slice(x, 1, 1, 2);
  const Tensor turned = transpose(x);
  EXPECT_EQ(version_of(x), 0U);
  fill_(column, 9);
  EXPECT_EQ(list(x), (List{1, 9, 3, 4, 9, 6}));
  EXPECT_EQ(list(turned), (List{1, 4, 9, 9, 3, 6}));
  EXPECT_EQ(version_of(x), 1U);
  EXPECT_EQ(version_of(turned), 1U);
  add_(x, vector({10, 20, 30}));
  EXPECT_EQ(list(column), (List{29, 29}));
  EXPECT_EQ(version_of(column), 2U);
}

TEST(InPlace, ReadsBeforeItWrites) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2});
  copy_(x, transpose(x));
  EXPECT_EQ(list(x), (List{1, 3, 2, 4}));
  add_(x, transpose(x));
  EXPECT_EQ(list(x), (List{2, 5, 5, 8}));
  const Tensor y = vector({1, 2, 3, 4});
  copy_(slice(y, 0, 1, 4), slice(y, 0, 0, 3));
  EXPECT_EQ(list(y), (List{1, 1, 2, 3}));
}

TEST(InPlace, KeepsTheType) {
  const Tensor x = Tensor::from({1.0F, 2.0F}, {2});
  mul_(x, vector({3, 4}));
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_EQ(list(x), (List{3, 8}));
  div_(sub_(x, vector({1, 0})), vector({2, 2}));
  EXPECT_EQ(list(x), (List{1, 4}));
  zero_(x);
  EXPECT_EQ(list(x), (List{0, 0}));
}

TEST(InPlace, RefusesWhatDoesNotFit) {
  const Tensor whole = Tensor::from({std::int64_t{1}}, {1});
  EXPECT_THAT(message_of([&] { copy_(whole, vector({1})); }), HasSubstr("i64[1] can't take a value of f64[1]"));
  EXPECT_THAT(message_of([&] { add_(vector({1}), vector({1, 2})); }), HasSubstr("must broadcast"));
  EXPECT_THAT(message_of([&] { fill_(expand(vector({1}), {3}), 2); }), HasSubstr("share memory"));
  EXPECT_THAT(message_of([&] { div_(whole, whole); }), HasSubstr("doesn't fit into i64[1]"));
  EXPECT_THAT(message_of([&] { fill_(Tensor(), 1); }), HasSubstr("undefined"));
}

TEST(InPlace, GradientsGoThroughIt) {
  auto f = grad(
      [](const Tensor& x, const Tensor& y) {
        const Tensor z = x * 3.0;
        mul_(z, y);
        add_(z, x);
        return sum(z * z);
      },
      std::vector<int>{0, 1});
  // z = x (3 y + 1): dz/dx = 3 y + 1, dz/dy = 3 x
  const auto gradients = f(vector({2}), vector({5}));
  EXPECT_EQ(list(gradients[0]), (List{2 * 32 * 16}));
  EXPECT_EQ(list(gradients[1]), (List{2 * 32 * 6}));
}

TEST(InPlace, AFreshTensorTakesUpGradients) {
  auto f = grad([](const Tensor& x) {
    const Tensor total = zeros({2}, DType::float64);
    for (int i = 0; i < 3; ++i) {
      add_(total, x * static_cast<double>(i));
    }
    return sum(total * total);
  });
  EXPECT_EQ(list(f(vector({1, 2}))), (List{18, 36}));
}

TEST(InPlace, AStaleSavedTensorIsAnErrorThatSaysWhere) {
  const Tensor x = requires_grad(vector({1, 2}));
  const Tensor y = exp(x);
  const Tensor z = sum(y * y);
  no_grad([&] { return add_(y, vector({1, 1})); });
  const std::string message = message_of([&] { autograd::grad(z, {x}); });
  EXPECT_THAT(message, HasSubstr("backward: input 0 f64[2], which mul had saved, was changed in place at"));
  EXPECT_THAT(message, HasSubstr("inplace_test.cpp:"));

  const Tensor saved_result = exp(x);
  const Tensor total = sum(saved_result);
  no_grad([&] { return zero_(saved_result); });
  EXPECT_THAT(message_of([&] { autograd::grad(total, {x}); }), HasSubstr("the result f64[2], which exp had saved"));
}

TEST(InPlace, AStaleInputThroughAViewIsFound) {
  const Tensor base = vector({1, 2, 3});
  const Tensor x = requires_grad(vector({5, 5}));
  const Tensor z = sum(slice(base, 0, 0, 2) * x);
  fill_(base, 7);
  EXPECT_THAT(message_of([&] { autograd::grad(z, {x}); }), HasSubstr("was changed in place"));
}

TEST(InPlace, RefusesWhatItCannotRecord) {
  const Tensor x = requires_grad(vector({1, 2}));
  EXPECT_THAT(message_of([&] { add_(x, vector({1, 1})); }), HasSubstr("is a tensor that gradients are asked for"));
  const Tensor y = x * 2.0;
  const Tensor view = slice(y, 0, 0, 1);
  EXPECT_THAT(message_of([&] { fill_(view, 0); }), HasSubstr("is a view or has views"));
  EXPECT_THAT(message_of([&] { fill_(y, 0); }), HasSubstr("is a view or has views"));
}

/// Runs in eager and as a graph; both must give the same.
template <class Fn>
std::vector<Tensor> in_both_modes(Fn fn, const Tensor& x) {
  std::vector<Tensor> eager = fn(copy(x));
  auto compiled = jit(fn);
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> graph = compiled(x);
    EXPECT_EQ(graph.size(), eager.size());
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << i << ": " << to_string(eager[i]) << " " << to_string(graph[i]);
    }
  }
  return eager;
}

TEST(InPlaceCapture, ViewsSeeUpdatesInBothDirections) {
  const auto results = in_both_modes(
      [](const Tensor& x) {
        const Tensor base = x * 1.0;
        const Tensor turned = transpose(base);
        const Tensor row = slice(turned, 0, 1, 2);  // column 1 of base
        const Tensor before = base + 0.5;
        fill_(row, 9);
        const Tensor middle = turned * 2.0;
        add_(base, x);
        mul_(row, row);
        return std::vector<Tensor>{before, middle, base, turned, row, reshape(base, {-1})};
      },
      Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3}));
  EXPECT_EQ(list(results[1]), (List{2, 8, 18, 18, 6, 12}));
  EXPECT_EQ(list(results[2]), (List{2, 121, 6, 8, 196, 12}));
  EXPECT_EQ(list(results[4]), (List{121, 196}));
}

TEST(InPlaceCapture, TheValueIsNoAlias) {
  in_both_modes(
      [](const Tensor& x) {
        const Tensor a = x * 1.0;
        const Tensor b = x * 2.0;
        copy_(a, b);
        fill_(b, 0);
        return std::vector<Tensor>{a, b};
      },
      vector({1, 2}));
}

TEST(InPlaceCapture, AVariablesValueIsItsState) {
  for (const bool graph : {false, true}) {
    Variable state(vector({1, 2}), "state");
    auto step = [&](const Tensor& x) { return add_(state.value(), x) * 1.0; };
    auto compiled = jit(step);
    for (int call = 0; call < 2; ++call) {
      graph ? compiled(vector({10, 20})) : step(vector({10, 20}));
    }
    EXPECT_EQ(list(state.value()), (List{21, 42})) << graph;
  }
}

TEST(InPlaceCapture, GradientsGoThroughIt) {
  const auto loss = [](const Tensor& x) {
    const Tensor z = x * 3.0;
    mul_(z, x);
    add_(z, x);
    return sum(z * z);
  };
  in_both_modes([&](const Tensor& x) { return std::vector<Tensor>{grad(loss)(x)}; }, vector({2, -1}));
}

TEST(InPlaceCapture, AStaleSavedTensorIsAnErrorThatSaysWhere) {
  auto stale = jit(grad([](const Tensor& x) {
    const Tensor y = x * 2.0;
    const Tensor z = sum(y * y);
    no_grad([&] { return add_(y, y); });
    return z;
  }));
  const std::string message = message_of([&] { stale(vector({1, 2})); });
  EXPECT_THAT(message, HasSubstr("input 0 f64[2], which mul had saved, was changed in place at"));
  EXPECT_THAT(message, HasSubstr("inplace_test.cpp:"));
  auto by_view = jit(grad([](const Tensor& x) {
    const Tensor base = zeros({3}, DType::float64) + 1.0;
    const Tensor z = sum(slice(base, 0, 0, 2) * x);
    fill_(base, 7);
    return z;
  }));
  EXPECT_THAT(message_of([&] { by_view(vector({1, 2})); }), HasSubstr("was changed in place"));
}

TEST(InPlace, AnUpdateByWhatTheTensorWasSavedForLeavesNothingBehind) {
  const auto in_use = allocator::stats().bytes_in_use;
  {
    // The tape of y's new value has the square, which has saved y's old one.
    auto twice = grad([](const Tensor& x) {
      const Tensor y = x * 3.0;
      const Tensor z = y * y;
      add_(y, z);
      return sum(y);
    });
    EXPECT_THAT(message_of([&] { twice(vector({1, 2})); }), HasSubstr("was changed in place"));
    auto itself = grad([](const Tensor& x) {
      const Tensor y = tanh(x);
      mul_(y, y);
      return sum(x * 2.0);
    });
    EXPECT_EQ(list(itself(vector({1, 2}))), (List{2, 2}));
  }
  EXPECT_EQ(allocator::stats().bytes_in_use, in_use);
}

TEST(InPlaceCapture, RefusesWhatAReplayCannotWrite) {
  auto argument = jit([](const Tensor& x) { return add_(x, x); });
  EXPECT_THAT(message_of([&] { argument(vector({1})); }), HasSubstr("comes from outside the captured function"));
  auto view_of_argument = jit([](const Tensor& x) { return fill_(slice(x, 0, 0, 1), 3); });
  EXPECT_THAT(message_of([&] { view_of_argument(vector({1, 2})); }), HasSubstr("comes from outside"));
  const Tensor closed = vector({1});
  auto closure = jit([&](const Tensor& x) { return add_(closed, x); });
  EXPECT_THAT(message_of([&] { closure(vector({1})); }), HasSubstr("comes from outside"));
  auto expanded = jit([](const Tensor& x) { return fill_(expand(x * 1.0, {3}), 2); });
  EXPECT_THAT(message_of([&] { expanded(vector({1})); }), HasSubstr("share memory"));
}

}  // namespace
}  // namespace diptych
