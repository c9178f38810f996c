// Control flow means the same in eager and in graphs, with every set of passes: same bits, same states, same errors.

#include <cstddef>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych {
namespace {

using testing::above;
using ::testing::AllOf;
using testing::below;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using testing::f32;
using ::testing::HasSubstr;
using testing::i64;
using testing::message_of;
using testing::ramp;
using testing::wave;

/// Eager's results, once every variant of the graph has given the same (twice: compiled, and replayed).
template <class Fn, class... Arguments>
std::vector<Tensor> everywhere(const Fn& function, const Arguments&... arguments) {
  const std::vector<Tensor> expected = flatten_tree(function(arguments...));
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    auto graph = jit(function, {.pipeline = variant.pipeline});
    for (int call = 0; call < 2; ++call) {
      expect_same_bits(flatten_tree(graph(arguments...)), expected, variant.name);
    }
  }
  return expected;
}

std::vector<float> numbers(const Tensor& x) { return x.to_vector<float>(); }

TEST(Cond, TakesTheBranchThatElementsSay) {
  const auto program = [](const Tensor& x) {
    return cond(
        above(sum(x), 0), [](const Tensor& y) { return y * 2; }, [](const Tensor& y) { return y - 1; }, x);
  };
  EXPECT_THAT(numbers(everywhere(program, f32({1, 2}, {2}))[0]), ElementsAre(2, 4));
  EXPECT_THAT(numbers(everywhere(program, f32({-1, -2}, {2}))[0]), ElementsAre(-2, -3));
}

TEST(Cond, OneGraphServesBothBranches) {
  auto graph = jit([](const Tensor& x) {
    return cond(
        above(sum(x), 0), [](const Tensor& y) { return y * 2; }, [](const Tensor& y) { return y - 1; }, x);
  });
  EXPECT_THAT(numbers(graph(f32({1, 2}, {2}))), ElementsAre(2, 4));
  EXPECT_THAT(numbers(graph(f32({-1, -2}, {2}))), ElementsAre(-2, -3));
  EXPECT_EQ(graph.compiled()->ledger().size(), 1U);
}

TEST(Cond, BranchesReadWhatIsAroundThem) {
  const Tensor constant = f32({10, 20}, {2});
  const Variable weight(f32({3, 5}, {2}), "weight");
  const auto program = [&](const Tensor& x) {
    const Tensor doubled = x + x;
    return cond(
        above(sum(x), 0), [&] { return doubled * weight; }, [&] { return constant - doubled; });
  };
  EXPECT_THAT(numbers(everywhere(program, f32({1, 2}, {2}))[0]), ElementsAre(6, 20));
  EXPECT_THAT(numbers(everywhere(program, f32({-1, -2}, {2}))[0]), ElementsAre(12, 24));
}

TEST(Cond, GivesTrees) {
  const auto program = [](const Tensor& x) {
    using Result = std::pair<Tensor, std::vector<Tensor>>;
    return cond(
        above(sum(x), 0),
        [](const Tensor& y) {
          return Result(y, {y * 2, sum(y)});
        },
        [](const Tensor& y) {
          return Result(y * 3, {y, Tensor::scalar(7.0F)});
        },
        x);
  };
  EXPECT_THAT(numbers(everywhere(program, f32({1, 2}, {2}))[2]), ElementsAre(3));
  EXPECT_THAT(numbers(everywhere(program, f32({-1, -2}, {2}))[2]), ElementsAre(7));
}

TEST(Cond, KeepsTheStridesOfWhatBranchesRead) {
  const Tensor w = transpose(wave({17, 13}, 0.3F));
  const auto program = [&](const Tensor& x) {
    return cond(
        above(sum(x), -1e9), [&](const Tensor& y) { return matmul(y, w); },
        [&](const Tensor& y) { return matmul(y, w * 2); }, x);
  };
  everywhere(program, wave({5, 13}, 1.0F));
  everywhere(program, transpose(wave({13, 5}, 1.0F)));
}

TEST(Cond, AssignsVariablesInOneBranchOrBoth) {
  for (const float sign : {1.0F, -1.0F}) {
    Variable eager_a(f32({1}, {1}), "a");
    Variable eager_b(f32({2}, {1}), "b");
    Variable graph_a(f32({1}, {1}), "a");
    Variable graph_b(f32({2}, {1}), "b");
    const auto program = [](Variable& a, Variable& b) {
      return [&](const Tensor& x) {
        cond(
            above(sum(x), 0),
            [&] {
              a.assign(a + x);
              b.assign(b * a);
            },
            [&] { b.assign(a - x); });
        return a + b;
      };
    };
    auto eager = program(eager_a, eager_b);
    auto graph = jit(program(graph_a, graph_b));
    for (int i = 0; i < 3; ++i) {
      const Tensor x = f32({sign * static_cast<float>(i + 1)}, {1});
      expect_same_bits(graph(x), eager(x), "result");
      expect_same_bits(graph_a, eager_a, "a");
      expect_same_bits(graph_b, eager_b, "b");
    }
  }
}

TEST(WhileLoop, RepeatsUntilTheConditionFails) {
  // Newton's method for the square root of 2.
  const auto program = [](const Tensor& start) {
    return while_loop([](const Tensor& x) { return above(abs(x * x - 2), 1e-5); },
                      [](const Tensor& x) { return (x + 2 / x) * 0.5; }, start);
  };
  EXPECT_NEAR(everywhere(program, Tensor::scalar(1.0F))[0].item(), std::sqrt(2.0), 1e-5);
  EXPECT_NEAR(everywhere(program, Tensor::scalar(1000.0F))[0].item(), std::sqrt(2.0), 1e-5);
}

TEST(WhileLoop, MayEndAtOnce) {
  const auto program = [](const Tensor& x) {
    return while_loop([](const Tensor& y) { return above(sum(y), 100); }, [](const Tensor& y) { return y * 2; }, x);
  };
  EXPECT_THAT(numbers(everywhere(program, transpose(ramp({2, 3})))[0]), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(WhileLoop, CarriesTreesAndReadsAround) {
  const auto program = [](const Tensor& limit, const Tensor& step) {
    using Carry = std::pair<Tensor, std::vector<Tensor>>;  // the counter, and two Fibonacci numbers
    return while_loop(
        [&](const Carry& c) { return less(c.first, limit); },
        [&](const Carry& c) {
          return Carry(c.first + step, {c.second[1], c.second[0] + c.second[1]});
        },
        Carry(Tensor::scalar(std::int64_t{0}), {Tensor::scalar(std::int64_t{0}), Tensor::scalar(std::int64_t{1})}));
  };
  const auto results = everywhere(program, Tensor::scalar(std::int64_t{10}), Tensor::scalar(std::int64_t{1}));
  EXPECT_EQ(results[1].item(), 55);
  EXPECT_EQ(results[2].item(), 89);
}

TEST(WhileLoop, CarriesTheVariablesThatItAssigns) {
  Variable eager_state(f32({1, 1}, {2}), "state");
  Variable graph_state(f32({1, 1}, {2}), "state");
  const auto program = [](Variable& state) {
    return [&](const Tensor& limit) {
      const Tensor before = state;  // the old value, whatever the loop does
      const Tensor rounds = while_loop([&](const Tensor&) { return less(sum(state), limit); },
                                       [&](const Tensor& n) {
                                         state.assign(state * 2 + before);
                                         return n + 1;
                                       },
                                       Tensor::scalar(0.0F));
      return std::vector<Tensor>{rounds, before, state};
    };
  };
  auto eager = program(eager_state);
  auto graph = jit(program(graph_state));
  for (const float limit : {10.0F, 5.0F, 1000.0F}) {
    expect_same_bits(graph(Tensor::scalar(limit)), eager(Tensor::scalar(limit)), "results");
    expect_same_bits(graph_state, eager_state, "state");
  }
  EXPECT_GT(eager_state.value().to_vector<float>()[0], 500);
}

TEST(WhileLoop, StopsAtItsBound) {
  const auto program = [](const Tensor& x) {
    return while_loop([](const Tensor& y) { return above(y, 0); }, [](const Tensor& y) { return y - 1; }, x,
                      {.max_iterations = 5});
  };
  EXPECT_EQ(everywhere(program, Tensor::scalar(5.0F))[0].item(), 0);
  auto graph = jit(program);
  for (const bool captured : {false, true}) {
    const std::string message = message_of<Error>([&] {
      const Tensor x = Tensor::scalar(6.0F);
      captured ? graph(x) : program(x);
    });
    EXPECT_THAT(message, AllOf(HasSubstr("max_iterations = 5"), HasSubstr("control_flow_test.cpp")));
  }
}

TEST(Scan, CarriesAndStacks) {
  const auto program = [](const Tensor& xs) {
    return scan([](const Tensor& total, const Tensor& x) { return std::pair(total + x, total * x); }, zeros({2}), xs);
  };
  const auto results = everywhere(program, f32({1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_THAT(numbers(results[0]), ElementsAre(9, 12));
  EXPECT_THAT(numbers(results[1]), ElementsAre(0, 0, 3, 8, 20, 36));
  EXPECT_EQ(results[1].shape(), (Shape{3, 2}));
}

TEST(Scan, RunsBackwardsAndOverStridedRows) {
  const auto program = [](const Tensor& xs) {
    return scan([](const Tensor& total, const Tensor& x) { return std::pair(total - x, transpose(total)); },
                zeros({2, 2}), xs, {.reverse = true});
  };
  const auto results = everywhere(program, permute(ramp({2, 2, 3}), {2, 0, 1}));
  EXPECT_THAT(numbers(results[0]), ElementsAre(-6, -15, -24, -33));
  everywhere(program, permute(ramp({2, 3, 2}), {1, 2, 0}));
}

TEST(Scan, CountsWithoutRows) {
  const auto program = [](const Tensor& x) {
    return scan([&](const Tensor& power, const std::tuple<>&) { return std::pair(power * x, power); },
                Tensor::scalar(1.0F), std::tuple<>(), {.length = 4});
  };
  EXPECT_THAT(numbers(everywhere(program, Tensor::scalar(3.0F))[1]), ElementsAre(1, 3, 9, 27));
}

TEST(Scan, OfNoRowsGivesTheCarryAndNoYs) {
  const auto program = [](const Tensor& xs) {
    return scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, std::pair(above(c, 0), matmul(x, x))); },
                ones({2, 2}), xs);
  };
  const auto results = everywhere(program, zeros({0, 2, 2}));
  EXPECT_THAT(numbers(results[0]), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(results[1].type(), (TensorType{DType::boolean, {0, 2, 2}}));
  EXPECT_EQ(results[2].type(), (TensorType{DType::float32, {0, 2, 2}}));
}

TEST(Scan, AssignsVariables) {
  Variable eager_seen(i64({0}, {}), "seen");
  Variable graph_seen(i64({0}, {}), "seen");
  const auto program = [](Variable& seen) {
    return [&](const Tensor& xs) {
      return scan(
                 [&](const std::tuple<>& none, const Tensor& x) {
                   seen.assign(add(seen, cast(x, DType::int64)));
                   return std::pair(none, seen.value());
                 },
                 std::tuple<>(), xs)
          .second;
    };
  };
  auto eager = program(eager_seen);
  auto graph = jit(program(graph_seen));
  for (int i = 0; i < 2; ++i) {
    const Tensor xs = f32({1, 2, 3}, {3});
    expect_same_bits(graph(xs), eager(xs), "ys");
    expect_same_bits(graph_seen, eager_seen, "seen");
  }
  EXPECT_EQ(graph_seen.value().item(), 12);
}

TEST(ControlFlow, Nests) {
  // Collatz steps of each row, up to 50, with a branch in a loop in a scan.
  const auto program = [](const Tensor& starts) {
    return scan(
        [](const Tensor& longest, const Tensor& start) {
          using Carry = std::pair<Tensor, Tensor>;
          const Carry end =
              while_loop([](const Carry& c) { return above(c.first, 1); },
                         [](const Carry& c) {
                           const Tensor half = cast(div(c.first, Tensor::scalar(std::int64_t{2})), DType::int64);
                           const Tensor next = cond(
                               equal(half + half, c.first), [&] { return half; }, [&] { return c.first * 3 + 1; });
                           return Carry(next, c.second + 1);
                         },
                         Carry(start, Tensor::scalar(std::int64_t{0})));
          return std::pair(maximum(longest, end.second), end.second);
        },
        Tensor::scalar(std::int64_t{0}), starts);
  };
  const auto results = everywhere(program, i64({1, 6, 7, 27}, {4}));
  EXPECT_EQ(results[0].item(), 111);
  EXPECT_THAT(results[1].to_vector<std::int64_t>(), ElementsAre(0, 8, 16, 111));
}

TEST(ControlFlow, CallsGraphsAndIsCalledByThem) {
  auto inner = jit([](const Tensor& x) { return tanh(x) * 2; });
  const auto program = [&](const Tensor& xs) {
    return scan([&](const Tensor& c, const Tensor& x) { return std::pair(inner(c + x), c); }, zeros({3}), xs);
  };
  everywhere(program, wave({4, 3}, 0.1F));
}

TEST(ControlFlow, CarriesThatChangeTheirTypeAreNamed) {
  const auto narrow = [](const Tensor& x) {
    return while_loop([](const std::pair<Tensor, Tensor>& c) { return above(sum(c.first), 0); },
                      [](const std::pair<Tensor, Tensor>& c) { return std::pair(c.first, slice(c.second, 0, 0, 1)); },
                      std::pair(x, x));
  };
  const auto convert = [](const Tensor& x) {
    return scan([](const Tensor& c, const Tensor& row) { return std::pair(cast(c + row, DType::float64), c); },
                zeros({}), x);
  };
  auto narrow_graph = jit(narrow);
  auto convert_graph = jit(convert);
  const Tensor x = f32({1, 2}, {2});
  for (const bool captured : {false, true}) {
    EXPECT_THAT(message_of<ShapeError>([&] { captured ? narrow_graph(x) : narrow(x); }),
                AllOf(HasSubstr("while_loop: carry leaf 1 changed from f32[2] to f32[1]"),
                      HasSubstr("control_flow_test.cpp:")));
    EXPECT_THAT(
        message_of<DTypeError>([&] { captured ? convert_graph(x) : convert(x); }),
        AllOf(HasSubstr("scan: carry leaf 0 changed from f32[] to f64[]"), HasSubstr("control_flow_test.cpp:")));
  }
}

TEST(ControlFlow, BranchesOfOtherTypesAreRefusedInGraphs) {
  auto graph = jit([](const Tensor& x) {
    return cond(
        above(sum(x), 0), [&] { return x; }, [&] { return sum(x); });
  });
  EXPECT_THAT(message_of<ShapeError>([&] {
                graph(f32({1, 2}, {2}));
              }),
              AllOf(HasSubstr("f32[2]"), HasSubstr("f32[]"), HasSubstr("branches give the same types")));
}

TEST(ControlFlow, PredicatesAreOneBool) {
  const auto by_vector = [](const Tensor& x) {
    return cond(
        above(x, 0), [&] { return x; }, [&] { return neg(x); });
  };
  auto graph = jit(by_vector);
  for (const bool captured : {false, true}) {
    EXPECT_THAT(message_of<ShapeError>([&] {
                  const Tensor x = f32({1, 2}, {2});
                  captured ? graph(x) : by_vector(x);
                }),
                HasSubstr("cond: the predicate is bool[2], not bool[]"));
  }
}

TEST(ControlFlow, RowsAgree) {
  const auto add_rows = [](const Tensor& c, const std::pair<Tensor, Tensor>& x) {
    return std::pair(c + x.first + x.second, c);
  };
  EXPECT_THAT(message_of<ShapeError>([&] { scan(add_rows, zeros({}), std::pair(zeros({3}), zeros({4}))); }),
              HasSubstr("leaf 1 of xs has 4 rows, not 3"));
  EXPECT_THAT(message_of<ShapeError>([&] { scan(add_rows, zeros({}), std::pair(zeros({3}), zeros({}))); }),
              HasSubstr("leaf 1 of xs is f32[], which has no rows"));
  EXPECT_THAT(message_of<Error>([&] {
                scan([](const Tensor& c, const std::tuple<>& none) { return std::pair(c, none); }, zeros({}),
                     std::tuple<>());
              }),
              HasSubstr("ScanOptions{.length"));
}

TEST(ControlFlow, ATracedReadInARegionNamesTheWaysOut) {
  auto graph = jit([](const Tensor& x) {
    return while_loop([](const Tensor& y) { return above(y, 0); }, [](const Tensor& y) { return y - y.item(); }, x);
  });
  EXPECT_THAT(message_of<CaptureError>([&] { graph(Tensor::scalar(1.0F)); }),
              AllOf(HasSubstr("cond()"), HasSubstr("while_loop()"), HasSubstr("scan()"), HasSubstr("debug::print()")));
}

TEST(ControlFlow, AFailureInARegionLeavesStatesAsTheyWere) {
  Variable counter(f32({5}, {}), "counter");
  auto graph = jit([&](const Tensor& x) {
    counter.assign(counter + 1);
    const Tensor y = while_loop([](const Tensor& v) { return below(v, 100); },
                                [&](const Tensor& v) {
                                  counter.assign(counter + 10);
                                  return debug::check_finite(v * v, "v");
                                },
                                x);
    return y;
  });
  EXPECT_THROW(graph(Tensor::scalar(-1e30F)), Error);
  EXPECT_EQ(counter.value().item(), 5);
}

TEST(ControlFlow, DrawsFreshNumbersInEachIteration) {
  const Generator eager_generator(7);
  const Generator graph_generator(7);
  const auto program = [](const Generator& generator) {
    return [&](const Tensor& x) {
      const auto loss = [&](const Tensor& at) {
        const auto [last, ys] = scan(
            [&](const Tensor& c, const std::tuple<>&) {
              const Tensor noise = rand({2}, DType::float32, generator);
              const Tensor next = cond(
                  above(sum(noise), 1), [&] { return c * rand({2}, DType::float32, generator); },
                  [&] { return c + at; });
              return std::pair(next, noise);
            },
            at, std::tuple<>(), {.length = 6});
        return std::pair(sum(last), ys);
      };
      auto result = value_and_grad(loss)(x);
      return std::vector<Tensor>{result.value, result.aux, result.arguments[0]};
    };
  };
  auto eager = program(eager_generator);
  auto graph = jit(program(graph_generator));
  const Tensor x = f32({0.5, 2}, {2});
  Tensor before;
  for (int call = 0; call < 3; ++call) {
    const std::vector<Tensor> drawn = eager(x);
    expect_same_bits(graph(x), drawn, "call");
    expect_same_bits(graph_generator.state(), eager_generator.state(), "state");
    EXPECT_NE(numbers(slice(drawn[1], 0, 0, 1)), numbers(slice(drawn[1], 0, 1, 2)));
    EXPECT_FALSE(before.defined() && bitwise_equal(before, drawn[1]));
    before = drawn[1];
  }
}

TEST(ControlFlow, UpdatesInPlaceStayInsideARegion) {
  const auto program = [](const Tensor& x) {
    return scan(
        [](const Tensor& c, const Tensor& row) {
          const Tensor mine = copy(row);
          add_(slice(mine, 0, 0, 1), c);
          return std::pair(c + sum(mine), mine);
        },
        zeros({}), x);
  };
  everywhere(program, f32({1, 2, 3, 4, 5, 6}, {3, 2}));
  auto outside = jit([](const Tensor& x) {
    const Tensor outer = x * 2;
    return cond(
        above(sum(x), 0), [&] { return add_(reshape(outer, {2}), x); }, [&] { return outer; });
  });
  EXPECT_THAT(message_of<CaptureError>([&] { outside(f32({1, 2}, {2})); }), HasSubstr("from outside"));
}

}  // namespace
}  // namespace diptych
