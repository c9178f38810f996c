// Custom rules, checkpointing, hooks, and gradients of computed tensors.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/diptych.h"

namespace diptych {
namespace {

using ::testing::HasSubstr;

Tensor doubles_of(std::initializer_list<double> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
std::vector<double> list(const Tensor& tensor) { return tensor.to_vector<double>(); }

template <class Fn>
std::string message_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// x^3 with a rule that counts its calls and is off by a factor of ten, to show that it is used.
auto odd_cube(int& calls) {
  return custom_vjp([](const Tensor& x) { return std::pair(x * x * x, x); },
                    [&calls](const Tensor& x, const Tensor& u) {
                      ++calls;
                      return u * x * x * 30.0;
                    });
}

TEST(CustomVjp, ReplacesTheRule) {
  int calls = 0;
  auto f = odd_cube(calls);
  EXPECT_EQ(list(f(doubles_of({2}))), (std::vector<double>{8}));
  EXPECT_EQ(list(grad([&](const Tensor& x) { return sum(f(x)); })(doubles_of({2, 3}))),
            (std::vector<double>{120, 270}));
  EXPECT_EQ(calls, 1);
}

TEST(CustomVjp, HasHigherOrdersAndForwardMode) {
  int calls = 0;
  auto f = odd_cube(calls);
  auto first = grad([&](const Tensor& x) { return sum(f(x)); });
  EXPECT_EQ(list(grad([&](const Tensor& x) { return sum(first(x)); })(doubles_of({2}))), (std::vector<double>{120}));
  EXPECT_EQ(list(jvp(f, doubles_of({2}), doubles_of({1})).second), (std::vector<double>{120}));
}

TEST(CustomVjp, WorksInsideAGraph) {
  int calls = 0;
  auto f = odd_cube(calls);
  auto step = jit(grad([&](const Tensor& x) { return sum(f(x)); }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(list(step(doubles_of({2, 3}))), (std::vector<double>{120, 270}));
  }
  EXPECT_EQ(calls, 1);
}

TEST(CustomVjp, OfSeveralArguments) {
  auto f = custom_vjp(
      [](const Tensor& a, const Tensor& b) { return std::pair(a * b, std::pair(a, b)); },
      [](const std::pair<Tensor, Tensor>& kept, const Tensor& u) { return std::tuple(u * kept.second, Tensor()); });
  const auto result = value_and_grad([&](const Tensor& a, const Tensor& b) { return sum(f(a, b)); }, {{0, 1}, {}})(
      doubles_of({2}), doubles_of({5}));
  EXPECT_EQ(list(result.arguments[0]), (std::vector<double>{5}));
  EXPECT_EQ(list(result.arguments[1]), (std::vector<double>{0}));
}

TEST(CustomVjp, RefusesClosuresAndWrongGradients) {
  auto closes = grad([](const Tensor& x) {
    auto f = custom_vjp([&](const Tensor& y) { return std::pair(y * x, y); },
                        [](const Tensor&, const Tensor& u) { return u; });
    return sum(f(x * 2.0));
  });
  EXPECT_THAT(message_of([&] { closes(doubles_of({1})); }), HasSubstr("is no argument"));
  auto wrong = custom_vjp([](const Tensor& x) { return std::pair(x * x, x); },
                          [](const Tensor&, const Tensor& u) { return sum(u); });
  EXPECT_THAT(message_of([&] {
                grad([&](const Tensor& x) { return sum(wrong(x)); })(doubles_of({1, 2}));
              }),
              HasSubstr("the gradient of argument 0 is f64[]"));
}

TEST(CustomJvp, GivesBothModes) {
  auto f = custom_jvp([](const Tensor& x) { return x * x; },
                      [](const Tensor& x, const Tensor& t) { return std::pair(x * x, t * x * 20.0); });
  EXPECT_EQ(list(jvp(f, doubles_of({3}), doubles_of({1})).second), (std::vector<double>{60}));
  EXPECT_EQ(list(grad([&](const Tensor& x) { return sum(f(x)); })(doubles_of({3, 4}))), (std::vector<double>{60, 80}));
  EXPECT_EQ(list(hessian([&](const Tensor& x) { return sum(f(x)); })(doubles_of({3}))), (std::vector<double>{20}));
}

struct Net {
  Rng rng{3};
  Variable w1{rng.normal({8, 8}, 0, 0.5, DType::float64), "w1"};
  Variable w2{rng.normal({8, 8}, 0, 0.5, DType::float64), "w2"};
  Variable calls{zeros({}, DType::float64), "calls"};

  Tensor block(const Tensor& x) {
    calls.assign(calls.value() + 1.0);
    return tanh(matmul(tanh(matmul(x, w1)), w2));
  }
};

TEST(Checkpoint, GivesTheSameGradientsAndStates) {
  for (const bool in_graph : {false, true}) {
    Net plain;
    Net saving;
    const Tensor x = Rng(4).normal({4, 8}, 0, 1, DType::float64);
    const auto train = [&](Net& net, bool checkpointed) {
      auto loss = value_and_grad(
          [&net, checkpointed](const Tensor& input) {
            auto block = [&net](const Tensor& h) { return net.block(h); };
            return sum(checkpointed ? checkpoint(block)(checkpoint(block)(input)) : block(block(input)));
          },
          {{0}, {net.w1, net.w2}});
      const auto flat = [loss](const Tensor& input) mutable {
        auto result = loss(input);
        return std::vector<Tensor>{result.value, result.arguments[0], result.weights[0], result.weights[1]};
      };
      return in_graph ? jit(flat)(x) : std::vector<Tensor>(std::decay_t<decltype(flat)>(flat)(x));
    };
    const auto expected = train(plain, false);
    const auto actual = train(saving, true);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(expected[i], actual[i])) << i << (in_graph ? " graph" : " eager");
    }
    EXPECT_EQ(saving.calls.value().item(), 2);
  }
}

TEST(Checkpoint, KeepsLess) {
  const auto deep = [](bool checkpointed) {
    const auto block = [](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 16; ++i) {
        y = tanh(y);
      }
      return y;
    };
    auto loss = grad([=](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 16; ++i) {
        y = checkpointed ? checkpoint(block)(y) : block(y);
      }
      return sum(y);
    });
    const Tensor x = Rng(1).normal({1 << 14});
    allocator::reset_peak();
    const std::int64_t before = allocator::stats().bytes_in_use;
    loss(x);
    return allocator::stats().peak_bytes - before;
  };
  EXPECT_LT(deep(true), deep(false) / 4);
}

TEST(Checkpoint, OfWhatWasUpdatedInPlaceSinceIsAnError) {
  const Variable w(doubles_of({3}), "w");
  const auto program = [&](int updated) {
    return [&, updated](const Tensor& x) {
      const Tensor y = checkpoint([&](const Tensor& t) { return t * t * w.value(); })(x);
      if (updated != 0) {
        no_grad([&] { zero_(updated == 1 ? x : w.value()); });
      }
      return sum(y);
    };
  };
  EXPECT_EQ(list(grad(program(0))(doubles_of({2}))), (std::vector<double>{12}));
  for (const int updated : {1, 2}) {
    EXPECT_THAT(message_of([&] { grad(program(updated))(doubles_of({2})); }),
                HasSubstr("checkpoint had saved, was changed in place at"))
        << updated;
  }
}

TEST(Checkpoint, TakesWhatIsNoTensorAndTensorsThatArentThere) {
  const auto f = [](const Tensor& x) {
    return sum(checkpoint([](const Tensor& y, const Tensor& mask, double factor, const std::vector<Tensor>& others) {
      return y * y * factor * others[0] * (mask.defined() ? 0 : 1);
    })(x, Tensor(), 3.0, std::vector<Tensor>{doubles_of({5}), Tensor()}));
  };
  EXPECT_EQ(list(grad(f)(doubles_of({2}))), (std::vector<double>{60}));
}

TEST(Checkpoint, AnInputThatIsUpdatedByTheResultLeavesNothingBehind) {
  const std::int64_t before = allocator::stats().bytes_in_use;
  {
    const Tensor x = doubles_of({2});
    const Tensor w = requires_grad(doubles_of({3}));
    add_(x, checkpoint([&](const Tensor& t) { return t * w; })(x));
  }
  EXPECT_EQ(allocator::stats().bytes_in_use, before);
}

TEST(Checkpoint, HasHigherOrders) {
  const auto f = [](const Tensor& x) { return sum(checkpoint([](const Tensor& y) { return y * y * y; })(x)); };
  EXPECT_EQ(list(grad([&](const Tensor& x) { return sum(grad(f)(x)); })(doubles_of({2}))), (std::vector<double>{12}));
  EXPECT_EQ(list(jvp(f, doubles_of({2}), doubles_of({1})).second), (std::vector<double>{12}));
  EXPECT_EQ(list(hessian(f)(doubles_of({2}))), (std::vector<double>{12}));
}

TEST(Hooks, SeeAndReplaceGradients) {
  std::vector<double> seen;
  RemovableHandle handle;
  auto f = grad([&](const Tensor& x) {
    const Tensor y = x * 2.0;
    handle = register_hook(y, [&](const Tensor& g) {
      seen = list(g);
      return g * 10.0;
    });
    return sum(y * y) + sum(y);  // two readers: the hook sees their sum
  });
  EXPECT_EQ(list(f(doubles_of({1, 2}))), (std::vector<double>{2 * 50, 2 * 90}));
  EXPECT_EQ(seen, (std::vector<double>{5, 9}));
}

TEST(Hooks, RunInOrderAndCanBeRemoved) {
  std::string order;
  const Tensor x = requires_grad(doubles_of({3}));
  const Tensor y = x * x;
  auto first = register_hook(y, [&](const Tensor&) {
    order += "a";
    return Tensor();
  });
  auto second = register_hook(y, [&](const Tensor&) {
    order += "b";
    first.remove();
    return Tensor();
  });
  autograd::grad(sum(y), {x}, {.retain_graph = true});
  EXPECT_EQ(order, "ab");
  autograd::grad(sum(y), {x}, {.retain_graph = true});
  EXPECT_EQ(order, "abb");
  second.remove();
  second.remove();
  EXPECT_EQ(list(autograd::grad(sum(y), {x})[0]), (std::vector<double>{6}));
  EXPECT_EQ(order, "abb");
}

TEST(Hooks, AreLegalInsideAGraph) {
  auto step = jit(grad([](const Tensor& x) {
    const Tensor y = x * 2.0;
    register_hook(y, [](const Tensor& g) { return g * 10.0; });
    return sum(y * y);
  }));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(list(step(doubles_of({1, 2}))), (std::vector<double>{80, 160}));
  }
  // A compiled forward pass inside an eager gradient.
  auto forward = jit([](const Tensor& x) {
    const Tensor y = x * 2.0;
    register_hook(y, [](const Tensor& g) { return g * 10.0; });
    return sum(y * y);
  });
  EXPECT_EQ(list(grad(forward)(doubles_of({1, 2}))), (std::vector<double>{80, 160}));
}

TEST(Hooks, SayWhatTheyRefuse) {
  EXPECT_THAT(message_of([] { register_hook(doubles_of({1}), [](const Tensor& g) { return g; }); }),
              HasSubstr("no gradient is asked for by f64[1]"));
  auto f = grad([](const Tensor& x) {
    const Tensor y = x * 2.0;
    register_hook(y, [](const Tensor& g) { return sum(g); });
    return sum(y);
  });
  EXPECT_THAT(message_of([&] { f(doubles_of({1, 2})); }), HasSubstr("a hook gave f64[] for a gradient of f64[2]"));
}

TEST(TapeGrad, OfComputedTensors) {
  const Tensor x = requires_grad(doubles_of({2, 3}));
  const Tensor y = x * x;
  const Tensor z = sum(y * x);
  const auto by = autograd::grad(z, {x, y}, {.retain_graph = true});
  EXPECT_EQ(list(by[0]), (std::vector<double>{12, 27}));
  EXPECT_EQ(list(by[1]), (std::vector<double>{2, 3}));
  const auto again = autograd::grad(z, {x}, {.create_graph = true});
  EXPECT_EQ(list(autograd::grad(sum(again[0]), {x})[0]), (std::vector<double>{12, 18}));
}

TEST(TapeGrad, SecondPassThroughFreedBuffersSaysWhere) {
  const Tensor x = requires_grad(doubles_of({2}));
  const Tensor y = exp(x) * x;
  autograd::grad(y, {x});
  const std::string message = message_of([&] { autograd::grad(y, {x}); });
  EXPECT_THAT(message, HasSubstr("backward: what mul had saved was freed by an earlier backward, at"));
  EXPECT_THAT(message, HasSubstr("custom_test.cpp"));
}

TEST(TapeGrad, RefusesWhatHasNoGradient) {
  EXPECT_THAT(message_of([] { requires_grad(Tensor::from({std::int64_t{1}}, {1})); }),
              HasSubstr("a gradient by i64[1] doesn't exist"));
  const Tensor x = requires_grad(doubles_of({2, 3}));
  EXPECT_THAT(message_of([&] { autograd::grad(x * x, {x}); }), HasSubstr("is no scalar"));
  EXPECT_THAT(message_of([&] { autograd::grad(doubles_of({1}), {x}); }), HasSubstr("depends on nothing"));
  EXPECT_THAT(message_of([&] { autograd::grad(sum(x), {doubles_of({1})}); }),
              HasSubstr("no gradient is asked for by the input"));
}

}  // namespace
}  // namespace diptych
