// The gradient of a graph that is called from eager: forward and backward are cut from one graph, nothing expensive is
// computed twice, and bits are those of eager.

#include "framework/transforms/call_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/core/trace_points.h"
#include "framework/transforms/ledger.h"
#include "tests/graph/variants.h"
#include "tests/support/message_of.h"
#include "tests/support/with_gemm.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::message_of;
using diptych::testing::wave;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// The names of the ops that run while it lives.
class RunOps {
 public:
  RunOps() {
    names().clear();
    trace::install(&kHooks);
  }
  ~RunOps() { trace::install(nullptr); }
  RunOps(const RunOps&) = delete;
  RunOps& operator=(const RunOps&) = delete;
  std::ptrdiff_t count(const char* name) const { return std::count(names().begin(), names().end(), name); }

 private:
  static std::vector<std::string>& names() {
    static std::vector<std::string> all;
    return all;
  }
  static constexpr trace::Hooks kHooks{
      [](const trace::Label* label, std::uint64_t /*source_op*/) noexcept { names().emplace_back(label->name); },
      [](const trace::Label* /*label*/) noexcept {},
      [](const trace::Label* /*label*/, std::int64_t, const void*) noexcept {}};
};

TEST(SplitGradient, AnEagerStepRunsEachProductOnce) {
  const Variable w(wave({6, 5}, 1), "w");
  auto layer = jit([&](const Tensor& x) { return tanh(matmul(x, w.value())); });
  const auto loss = [&](const Tensor& x) { return sum(square(layer(x))); };
  auto of_both = value_and_grad(loss, {.arguments = {0}, .weights = {w}});
  auto of_weights = value_and_grad(loss, {.arguments = {}, .weights = {w}});
  const Tensor x = wave({3, 6}, 2);
  of_both(x);  // compiles
  of_weights(x);
  {
    const RunOps ops;
    of_both(x);
    EXPECT_EQ(ops.count("matmul"), 3) << "one forward, two for the gradients";
    EXPECT_EQ(ops.count("tanh"), 1);
  }
  const RunOps ops;
  of_weights(x);
  EXPECT_EQ(ops.count("matmul"), 2) << "nobody wants the gradient of x";
}

template <class Make>
void expect_eager_bits(const Make& make) {
  const std::vector<Tensor> eager = make([](auto fn) { return fn; });
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    const std::vector<Tensor> graph = make([&](auto fn) { return jit(fn, {.pipeline = variant.pipeline}); });
    expect_same_bits(graph, eager, variant.name);
  }
}

TEST(SplitGradient, RandomAndRunningStatesMoveOnceACall) {
  expect_eager_bits([](auto wrap) {
    Generator generator(7);
    nn::Dropout dropout(0.3, generator);
    nn::BatchNorm1d norm(5);
    const Variable w(wave({6, 5}, 1), "w");
    auto layer = wrap([&](const Tensor& x) { return dropout(norm(matmul(x, w.value()))); });
    auto step =
        value_and_grad([&](const Tensor& x) { return sum(square(layer(x))); }, {.arguments = {0}, .weights = {w}});
    std::vector<Tensor> all;
    for (int i = 0; i < 3; ++i) {
      for (const Tensor& tensor : flatten_tree(step(wave({8, 6}, static_cast<float>(i))))) {
        all.push_back(tensor);
      }
      for (const Variable& state : norm.state()) {
        all.push_back(copy(state.value()));
      }
    }
    return all;
  });
}

TEST(SplitGradient, CotangentsOfEveryLayoutAndUnusedResults) {
  expect_eager_bits([](auto wrap) {
    auto inner = wrap([](const Tensor& x) {
      return std::vector<Tensor>{exp(x), matmul(x, transpose(x)), argmax(x, 0)};
    });
    auto gradient = grad([&](const Tensor& x) {
      const std::vector<Tensor> parts = inner(x);
      return sum(transpose(parts[1]) * wave({4, 4}, 3)) + mean(parts[0]);
    });
    return std::vector<Tensor>{gradient(wave({4, 6}, 1)), gradient(wave({4, 6}, 2))};
  });
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Zeros in the place of a cotangent that isn't there would give 0 * inf.
TEST(SplitGradient, AResultWithoutCotangentHasNoInfluence) {
  expect_eager_bits([](auto wrap) {
    auto layer = wrap([](const Tensor& x) { return std::pair(x * 3, square(x)); });
    const Tensor x = f32({1, kInfinity, -2}, {3});
    auto of_first = grad([&](const Tensor& t) { return sum(layer(t).first); });
    auto of_second = grad([&](const Tensor& t) { return sum(layer(t).second); });
    auto of_both = grad([&](const Tensor& t) {
      const auto both = layer(t);
      return sum(both.first) + sum(both.second);
    });
    return std::vector<Tensor>{of_first(x),  of_first(x), of_second(x), of_first(x),
                               of_second(x), of_both(x),  of_both(x),   of_first(x)};
  });
}

// -0 + 0 is 0.
TEST(SplitGradient, AnInputWithoutInfluenceGetsNothing) {
  expect_eager_bits([](auto wrap) {
    auto layer = wrap([](const Tensor& x, const Tensor& y) { return std::pair(x * 3, square(y)); });
    auto step = value_and_grad(
        [&](const Tensor& x, const Tensor& y) { return sum(layer(x, y).first) + sum(y * full({}, -0.0)); },
        {.arguments = {0, 1}});
    std::vector<Tensor> all;
    for (int i = 0; i < 3; ++i) {
      for (const Tensor& tensor : flatten_tree(step(wave({8}, 1), wave({8}, 2)))) {
        all.push_back(tensor);
      }
    }
    EXPECT_TRUE(std::signbit(all.back().to_vector<float>()[0]));
    return all;
  });
}

// By no input at all.
TEST(SplitGradient, AResultThatNothingInfluencesHasAGradientOfZeros) {
  expect_eager_bits([](auto wrap) {
    auto layer = wrap([](const Tensor& x) { return std::pair(x * 3, stop_gradient(x) + 1); });
    auto step = grad([&](const Tensor& x) { return sum(layer(x).second); });
    return std::vector<Tensor>{step(wave({4}, 1)), step(wave({4}, 2)), step(wave({4}, 3))};
  });
}

/// A loss by w, and beside it a product by v.
struct LossAndAside {
  Variable w{wave({6, 5}, 1), "w"};
  Variable v{wave({6, 5}, 2), "v"};
  passes::PipelineOptions pipeline{.disabled = {"epilogue", "multi-tensor", "fuse", "merge-products"}};
  graph::Jit<std::function<std::pair<Tensor, Tensor>(const Tensor&)>> layer =
      jit(std::function([w = w, v = v](const Tensor& x) {
            return std::pair(sum(tanh(matmul(x, w.value()))), sum(exp(matmul(x, v.value()))));
          }),
          {.pipeline = pipeline});

  /// Of the one result, of the other one, or of both.
  std::vector<Tensor> gradient_of(const ResultSet& given, const Tensor& x) {
    auto step = value_and_grad(
        [&](const Tensor& t) {
          const auto [first, second] = layer(t);
          return given[0] && given[1] ? first + second : given[0] ? first : second;
        },
        {.arguments = {}, .weights = {w, v}});
    return flatten_tree(step(x));
  }
  const std::vector<GradientCompilation>& lines() { return layer.compiled()->ledger().back().gradients; }
};

TEST(SplitGradient, IsCutForTheResultsThatGradientsAreOf) {
  LossAndAside program;
  const Tensor x = wave({3, 6}, 2);
  program.gradient_of({true, false}, x);
  program.gradient_of({true, false}, x);
  {
    const RunOps ops;
    program.gradient_of({true, false}, x);
    EXPECT_EQ(ops.count("matmul"), 3) << "two forward, one for the gradient";
  }
  ASSERT_EQ(program.lines().size(), 2U);
  const auto sets_of = [&](std::size_t line) {
    std::vector<ResultSet> sets;
    for (const GradientCompilation::Backward& backward : program.lines()[line].backwards) {
      sets.push_back(backward.given);
    }
    return sets;
  };
  EXPECT_THAT(sets_of(0), ElementsAre(ResultSet{true, true}, ResultSet{true, false}, ResultSet{false, true}));
  EXPECT_EQ(program.lines()[0].calls, 1U);
  EXPECT_EQ(program.lines()[0].use->taken, 1U) << "although nobody knew of which result it would be";
  EXPECT_THAT(sets_of(1), ElementsAre(ResultSet{true, false}));
  EXPECT_EQ(program.lines()[1].calls, 2U);
  EXPECT_EQ(program.lines()[1].use->taken, 2U);
  EXPECT_EQ(program.lines()[1].use->again, 0U);
  EXPECT_LT(program.lines()[1].saved_bytes, program.lines()[0].saved_bytes);
  EXPECT_THAT(to_text(program.layer.compiled()->ledger()),
              AllOf(ContainsRegex("its gradient by input 1, 2: forward [0-9]+ nodes, backward [0-9]+ .of result 0, 1., "
                                  "[0-9]+ .of result 0., [0-9]+ .of result 1., between them"),
                    ContainsRegex("its gradient by input 1, 2: forward [0-9]+ nodes, backward [0-9]+ .of result 0., "
                                  "between them"),
                    Not(HasSubstr("again"))));
}

TEST(SplitGradient, GradientsInTurnComputeTheForwardPassOnce) {
  LossAndAside program;
  const Tensor x = wave({3, 6}, 2);
  for (int i = 0; i < 2; ++i) {
    program.gradient_of({true, false}, x);
    program.gradient_of({false, true}, x);
  }
  const RunOps ops;
  for (int i = 0; i < 3; ++i) {
    program.gradient_of({true, false}, x);
    program.gradient_of({false, true}, x);
  }
  EXPECT_EQ(ops.count("matmul"), 6 * 3);
  ASSERT_EQ(program.lines().size(), 3U) << "for what is likely, for the first, for both";
  EXPECT_EQ(program.lines()[1].use->again, 1U) << "the second one was new";
  EXPECT_GT(program.lines()[1].use->again_seconds, 0);
  EXPECT_EQ(program.lines()[2].use->again, 0U);
  EXPECT_EQ(program.lines()[2].use->taken, 8U);
  EXPECT_THAT(to_text(program.layer.compiled()->ledger()),
              ContainsRegex("of other results, or to have gradients: computes it again +[0-9.]+ [mu]s +1\n"));
}

TEST(SplitGradient, OtherSignaturesAreCutForTheSameResults) {
  LossAndAside program;
  program.gradient_of({true, false}, wave({3, 6}, 2));
  program.gradient_of({true, false}, wave({4, 6}, 2));
  ASSERT_EQ(program.layer.compiled()->ledger().size(), 2U);
  ASSERT_EQ(program.lines().size(), 1U);
  ASSERT_EQ(program.lines()[0].backwards.size(), 1U);
  EXPECT_EQ(program.lines()[0].backwards[0].given, (ResultSet{true, false}));
}

TEST(SplitGradient, GradientsOfGradientsDontCountAsTheirResults) {
  LossAndAside program;
  auto curve = [&](const Tensor& x) {
    auto slope = grad([&](const Tensor& t) { return program.layer(t).second; });
    return grad([&](const Tensor& t) { return sum(slope(t)); })(x);
  };
  curve(wave({3, 6}, 2));
  program.gradient_of({true, false}, wave({3, 6}, 2));
  EXPECT_EQ(program.lines().back().backwards.size(), 3U) << "as if none had been taken";
}

TEST(GradientSets, AreThoseThatWereSeenOrLikely) {
  const TensorType real{DType::float32, {2}};
  const TensorType whole{DType::int32, {2}};
  GradientSets sets;
  const auto of = [&](const std::vector<TensorType>& results) { return sets.expected(results).sets; };
  EXPECT_THAT(of({real}), ElementsAre(ResultSet{true}));
  EXPECT_THAT(of({whole}), ElementsAre(ResultSet{false}));
  EXPECT_THAT(of({real, whole}), ElementsAre(ResultSet{true, false}));
  EXPECT_THAT(of({real, whole, real}),
              ElementsAre(ResultSet{true, false, true}, ResultSet{true, false, false}, ResultSet{false, false, true}));
  EXPECT_THAT(of(std::vector<TensorType>(9, real)),
              ElementsAre(ResultSet(9, true), ResultSet{true, false, false, false, false, false, false, false, false}));
  EXPECT_TRUE(sets.expected(std::vector<TensorType>{real}).is_guess);

  sets.note({false, true});
  sets.note({false, true});
  EXPECT_THAT(of({real, real}), ElementsAre(ResultSet{false, true}));
  EXPECT_FALSE(sets.expected(std::vector<TensorType>{real, real}).is_guess);
  EXPECT_THAT(of({real, whole}), ElementsAre(ResultSet{true, false})) << "no integer has a gradient";
  EXPECT_EQ(of({real, real, real}).size(), 4U) << "another structure";
  for (std::size_t i = 0; i < 2 * GradientSets::kMost; ++i) {
    ResultSet given(2 * GradientSets::kMost, false);
    given[i] = true;
    sets.note(given);
  }
  EXPECT_EQ(of(std::vector<TensorType>(2 * GradientSets::kMost, real)).size(), GradientSets::kMost - 1);

  // Others take the places of those that nobody wants any more.
  for (std::uint64_t i = 0; i < 2 * GradientSets::kForgotten; ++i) {
    sets.note({true, true});
    sets.note({true, false});
  }
  EXPECT_THAT(of({real, real}), ::testing::UnorderedElementsAre(ResultSet{true, true}, ResultSet{true, false}));
}

const char* const kUpdated = "a graph call had saved, was changed in place at";

TEST(SplitGradient, AnInputThatWasUpdatedSinceIsAnError) {
  auto product = jit([](const Tensor& x, const Tensor& w) { return matmul(x, w); });
  auto layer = jit([](const Tensor& x) { return std::pair(sum(tanh(x)), sum(x) * 2); });
  const auto gradient_of = [&](auto fn, const Tensor& updated) {
    return message_of<Error>([&] {
      grad([&](const Tensor& w) {
        const Tensor y = fn(w);
        no_grad([&] { zero_(updated); });
        return sum(y);
      })(wave({4, 4}, 2));
    });
  };
  for (int i = 0; i < 2; ++i) {
    const Tensor x = wave({3, 4}, 1);
    const auto by_weight = [&](const Tensor& w) { return product(x, w); };
    EXPECT_THAT(gradient_of(by_weight, x),
                AllOf(HasSubstr("a tensor f32[3,4]"), HasSubstr(kUpdated), HasSubstr("call_gradient_test.cpp")));
    const auto in_eager = [&](const Tensor& w) { return matmul(x, w); };
    EXPECT_THAT(gradient_of(in_eager, x), HasSubstr("was changed in place at")) << "as in eager";
  }
}

// Captured tensors stay where they are: what is called later reads what they have then.
TEST(SplitGradient, ACapturedTensorThatWasUpdatedSinceIsAnErrorIfTheGradientReadsIt) {
  for (const auto gemm : {kernels::Gemm::tiles, kernels::Gemm::openblas}) {  // cut, or not
    const diptych::testing::WithGemm with(gemm);
    const Tensor factor = wave({4}, 1);
    auto layer = jit([&](const Tensor& x) { return exp(x) * factor; });
    EXPECT_THAT(message_of<Error>([&] {
                  grad([&](const Tensor& x) {
                    const Tensor y = layer(x);
                    no_grad([&] { zero_(factor); });
                    return sum(y);
                  })(wave({4}, 2));
                }),
                HasSubstr(kUpdated));
  }
  expect_eager_bits([](auto wrap) {
    const Tensor shift = wave({4}, 1);
    auto layer = wrap([&](const Tensor& x) { return exp(x) + shift; });
    auto step = value_and_grad([&](const Tensor& x) {
      const Tensor y = layer(x);
      no_grad([&] { add_(shift, full({}, 1)); });
      return sum(y);
    });
    std::vector<Tensor> all = flatten_tree(step(wave({4}, 2)));
    for (const Tensor& tensor : flatten_tree(step(wave({4}, 2)))) {
      all.push_back(tensor);
    }
    return all;
  });
}

// tanh's gradient reads its result alone, in either mode; of which results the gradient is doesn't matter.
TEST(SplitGradient, AnInputThatItsGradientDoesntReadMayBeUpdated) {
  expect_eager_bits([](auto wrap) {
    auto layer = wrap([](const Tensor& x) { return std::pair(sum(tanh(x)), x * 2); });
    std::vector<Tensor> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(grad([&](const Tensor& x) {
        const Tensor y = layer(x).first;
        no_grad([&] { zero_(x); });
        return y;
      })(wave({3, 4}, 1)));
    }
    return all;
  });
}

TEST(SplitGradient, AResultThatWasUpdatedSinceIsAnError) {
  for (const bool compiles : {false, true}) {
    auto layer = jit([](const Tensor& x) { return exp(x); });
    const std::string message = message_of<Error>([&] {
      grad([&](const Tensor& x) {
        const Tensor y = compiles ? layer(x) : exp(x);
        const Tensor loss = sum(y);
        no_grad([&] { zero_(y); });
        return loss;
      })(wave({4}, 1));
    });
    EXPECT_THAT(message, HasSubstr("was changed in place at")) << compiles;
  }
}

// What is updated by the result of a call that it was an input of would refer to the call, and the call to it.
TEST(SplitGradient, AnInputThatIsUpdatedByTheResultLeavesNothingBehind) {
  const std::int64_t before = allocator::stats().bytes_in_use;
  {
    auto layer = jit([](const Tensor& x, const Tensor& w) { return exp(x) * w; });
    const Tensor x = wave({64}, 1);
    add_(x, layer(x, autograd::watch(wave({64}, 2))));  // and no gradient frees what the call holds
  }
  EXPECT_EQ(allocator::stats().bytes_in_use, before);
}

TEST(SplitGradient, CustomRulesAndCheckpointsInside) {
  expect_eager_bits([](auto wrap) {
    auto twice = custom_vjp([](const Tensor& x) { return std::pair(exp(x), x); },
                            [](const Tensor& x, const Tensor& cotangent) { return cotangent * cos(x) * 3; });
    auto inner = wrap([twice](const Tensor& x) mutable {
      return twice(checkpoint([](const Tensor& y) { return tanh(matmul(y, y)); })(x)) * x;
    });
    auto gradient = grad([&](const Tensor& x) { return sum(inner(x)); });
    return std::vector<Tensor>{gradient(wave({4, 4}, 1))};
  });
}

TEST(SplitGradient, AGradientThatCannotBeCapturedIsAnErrorOfItsOwn) {
  auto rule = custom_vjp([](const Tensor& x) { return std::pair(exp(x), x); },
                         [](const Tensor& x, const Tensor& cotangent) { return cotangent * sum(x).item(); });
  auto inner = jit([rule](const Tensor& x) mutable { return rule(x); });
  const Tensor x = autograd::watch(wave({3}, 1));
  expect_same_bits(inner(x), exp(wave({3}, 1)), "the result");
  EXPECT_THROW(grad([&](const Tensor& y) { return sum(inner(y)); })(wave({3}, 1)), CaptureError);
}

TEST(SplitGradient, RulesReadVariablesWhenTheGradientIsComputed) {
  expect_eager_bits([](auto wrap) {
    Variable scale(wave({3}, 1), "scale");
    auto rule =
        custom_vjp([](const Tensor& x) { return std::pair(exp(x), x); },
                   [scale](const Tensor& /*x*/, const Tensor& cotangent) { return cotangent * exp(scale.value()); });
    auto inner = wrap([rule](const Tensor& x) mutable { return rule(x); });
    auto gradient = grad([&](const Tensor& x) {
      const Tensor y = inner(x);
      no_grad([&] { scale.assign(scale.value() * 2); });
      return sum(y);
    });
    return std::vector<Tensor>{gradient(wave({3}, 1)), gradient(wave({3}, 2))};
  });
}

TEST(SplitGradient, AGuardThatOnlyTheGradientReadsIsWatched) {
  expect_eager_bits([&](auto wrap) {
    Guarded times("times", 1);
    auto rule = custom_vjp([](const Tensor& x) { return std::pair(exp(x), x); },
                           [&times](const Tensor& /*x*/, const Tensor& cotangent) {
                             return cotangent * static_cast<double>(times.get());
                           });
    auto inner = wrap([rule](const Tensor& x) mutable { return rule(x); });
    auto gradient = grad([&](const Tensor& x) { return sum(inner(x)); });
    std::vector<Tensor> all{gradient(wave({3}, 1))};
    times.set(5);
    all.push_back(gradient(wave({3}, 1)));
    return all;
  });
}

/// What `fn` prints, without the elements.
template <class Fn>
std::string printed_by(const Fn& fn) {
  std::ostringstream printed;
  debug::set_stream(&printed);
  fn();
  debug::set_stream(nullptr);
  std::string text;
  std::istringstream lines(printed.str());
  for (std::string line; std::getline(lines, line);) {
    text += line.substr(0, line.find(':')) + " ";
  }
  return text;
}

/// Cut or not, of the first order or the second: as in eager.
TEST(SplitGradient, EffectsHappenOnce) {
  const auto in_eager_and_graph = [](auto program, const std::string& expected, const char* what) {
    EXPECT_EQ(printed_by([&] { program([](auto fn) { return fn; }); }), expected) << what << ", eager";
    EXPECT_EQ(printed_by([&] { program([](auto fn) { return jit(std::move(fn)); }); }), expected) << what;
  };
  const Variable w(wave({4, 4}, 1), "w");
  const auto layer = [&](const Tensor& x) { return debug::print("y", tanh(matmul(x, w.value()))); };
  in_eager_and_graph(
      [&](auto wrap) {
        auto inner = wrap(layer);
        auto step = value_and_grad([&](const Tensor& x) { return sum(inner(x)); });
        step(wave({2, 4}, 1));
        step(wave({2, 4}, 1));
      },
      "y y ", "first order");
  in_eager_and_graph(
      [&](auto wrap) {
        auto inner = wrap(layer);
        auto slope = grad([&](const Tensor& x) { return sum(square(inner(x))); });
        auto curve = grad([&](const Tensor& x) { return sum(square(slope(x))); });
        curve(wave({2, 4}, 1));
        curve(wave({2, 4}, 1));
      },
      "y y ", "second order");
  in_eager_and_graph(
      [&](auto wrap) {
        Variable state(zeros({2, 4}), "state");
        auto inner = wrap([&](const Tensor& x) {
          state.assign(debug::print("state", state.value() + x));  // an update behind an effect: it isn't cut
          return layer(x);
        });
        auto step = value_and_grad([&](const Tensor& x) { return sum(square(inner(x))); });
        step(wave({2, 4}, 1));
        step(wave({2, 4}, 1));
      },
      "state y state y ", "an effect that a state needs");
}

// Gradients that have some can't be cut together.
TEST(SplitGradient, EffectsOfGradientsHappenForTheirResultsAlone) {
  const auto program = [](auto wrap) {
    auto layer = wrap([](const Tensor& x) {
      const std::pair results(exp(x), square(x));
      register_hook(results.first, [](const Tensor& gradient) { return debug::print("first", gradient); });
      register_hook(results.second, [](const Tensor& gradient) { return debug::print("second", gradient); });
      return results;
    });
    for (const ResultSet& given : {ResultSet{true, false}, {false, true}, {true, false}, {false, true}, {true, true}}) {
      grad([&](const Tensor& x) {
        const auto [first, second] = layer(x);
        return given[0] && given[1] ? sum(first) + sum(second) : sum(given[0] ? first : second);
      })(wave({3}, 1));
    }
  };
  const std::string in_eager = printed_by([&] { program([](auto fn) { return fn; }); });
  EXPECT_EQ(in_eager.substr(0, 26), "first second first second ");
  EXPECT_EQ(printed_by([&] { program([](auto fn) { return jit(std::move(fn)); }); }), in_eager);
}

}  // namespace
}  // namespace diptych::graph
