// Damaged graph texts: the parser either says no, or gives a graph that verifies, whose text is stable, and that runs:
// op by op, as it stands and compiled, with the same bits. Nothing crashes, hangs, or throws anything but Error. 30,000
// of them by default, or for DIPTYCH_FUZZ_SECONDS; DIPTYCH_FUZZ_SEED sets other damage.

#include <algorithm>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

#include "framework/capture/graph_function.h"
#include "framework/runtime/executable.h"
#include "tests/fuzz/budget.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::wave;

template <class Fn>
std::string text_of(const Fn& fn, const Tensor& x, const passes::PipelineOptions& pipeline) {
  auto function = jit(fn, {.name = "fuzzed \"graph\"\n", .pipeline = pipeline});
  function(x);
  return print(*function.compiled()->graph());
}

std::vector<std::string> seed_graphs() {
  std::vector<std::string> texts;
  for (const passes::PipelineOptions& pipeline :
       {passes::PipelineOptions(), passes::PipelineOptions::none(), diptych::testing::fusing_all()}) {
    texts.push_back(text_of(
        [](const Tensor& x) {
          return std::vector<Tensor>{softmax(transpose(x)), sum(reshape(x, {-1}) * 2), slice(x, 1, 0, 3, 2),
                                     cast(expand(x, {2, 3, 4}), DType::int64)};
        },
        wave({3, 4}, 1), pipeline));
    Variable w(wave({4, 2}, 1), "w\\eight");
    Variable step(i64({0}, {1}), "step");
    texts.push_back(text_of(
        [&](const Tensor& x) {
          const ModuleScope scope("net.0");
          const auto result =
              value_and_grad([&](const Tensor& y) { return mean(square(matmul(y, w.value()))); }, {.weights = {w}})(x);
          w.assign(w.value() - result.weights[0] * 0.1F);
          step.assign(step.value() + 1);
          return result.value;
        },
        wave({3, 4}, 1), pipeline));
    texts.push_back(text_of(
        [](const Tensor& x) {
          return std::vector<Tensor>{
              where(less(x, full({2}, -0.0)), square(full({2}, 0.3)) + x, exp(full({2}, 1e30)) - exp(full({2}, 1e30))),
              cross_entropy(reshape(x, {1, 2}), argmax(reshape(x, {1, 2}), 1))};
        },
        f32({1, -1}, {2}), pipeline));
    texts.push_back(text_of(
        [](const Tensor& x) {
          const auto body = [](const Tensor& carry, const Tensor& row) {
            const Tensor limit = full({}, 3);
            const Tensor next = cond(
                less(sum(row), limit), [&] { return carry * row; },
                [&] {
                  return while_loop([&](const Tensor& y) { return less(sum(y), limit); },
                                    [](const Tensor& y) { return y * y; }, row, {.max_iterations = 7});
                });
            return std::pair(next, debug::check_finite(sum(next), "sum"));
          };
          const auto [last, ys] = scan(body, full({2}, 1), x, {.reverse = true});
          return std::vector<Tensor>{last, ys};
        },
        wave({3, 2}, 1), pipeline));
    texts.push_back(text_of(  // large enough to be fused
        [](const Tensor& x) { return sum(exp(tanh(square(x) + x) * x - x), {1}); }, wave({64, 256}, 1), pipeline));
    Variable first(wave({3}, 2), "first");
    Variable second(wave({2, 2}, 3), "second");
    texts.push_back(text_of(  // a product with what is behind it, rows, and the update of two states
        [&](const Tensor& x) {
          for (Variable* const state : {&first, &second}) {
            state->assign(state->value() - tanh(state->value() * 0.5F));
          }
          const Tensor y = relu(linear(x, wave({4, 5}, 5), wave({5}, 6))) + wave({3, 5}, 7);
          return std::vector<Tensor>{y, layer_norm(y, {5}, wave({5}, 8), wave({5}, 9)) * 2.0F};
        },
        wave({3, 4}, 4), pipeline));
  }
  Graph constants;
  constants.name = "c";
  for (const Tensor& tensor : {f32({1, -0.0F, std::numeric_limits<float>::quiet_NaN(), 1e-45F}, {2, 2}),
                               i64({-5, 7}, {2}), f32({}, {0, 2}), f32({3, 3, 3}, {3})}) {
    constants.outputs.push_back(constants.new_value(tensor.type()));
    constants.constants.emplace_back(constants.outputs.back(), tensor);
  }
  constants.constants.emplace_back(constants.new_value({DType::boolean, {2}}), Tensor::from<bool>({true, false}, {2}));
  texts.push_back(print(constants));
  return texts;
}

std::int64_t elements_of(const Graph& graph) {
  std::int64_t elements = 0;
  for (const TensorType& type : graph.types) {
    elements += type.shape.product();
  }
  for (const Node& node : graph.nodes) {
    for (const auto& region : node.regions) {
      elements += elements_of(*region);
    }
  }
  return elements;
}

/// Whether it ends, soon. Loops may not.
bool is_quick(const Graph& graph) {
  constexpr std::int64_t kMostElements = 200'000;
  return elements_of(graph) < kMostElements &&
         std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.is_control(); });
}

/// As a function of all its inputs that returns the new states, too.
Graph without_states(Graph graph) {
  for (Input& input : graph.inputs) {
    input.kind = InputKind::argument;
  }
  for (const Update& update : graph.updates) {
    graph.outputs.push_back(update.value);
  }
  graph.updates.clear();
  return graph;
}

Tensor drawn(const TensorType& type, float phase) {
  const Tensor values = wave(type.shape, phase);
  return is_floating(type.dtype) ? cast(values, type.dtype) : cast(greater(values, full({}, 0)), type.dtype);
}

/// Op by op, as it stands (with its fused nodes) and compiled. False: eager says no.
bool runs_alike(const Graph& with_states) {
  const Graph graph = without_states(with_states);
  std::vector<Tensor> arguments;
  std::vector<Strides> strides;
  for (const Input& input : graph.inputs) {
    arguments.push_back(drawn(graph.types[input.value], static_cast<float>(arguments.size())));
    strides.push_back(arguments.back().strides());
  }
  const GraphFunction function(graph, {}, {});
  std::vector<Tensor> eager;
  try {
    eager = function(arguments);
  } catch (const Error&) {
    return false;
  }
  std::vector<Tensor> as_it_stands;
  runtime::Executable(graph, strides, {}).run(arguments, as_it_stands);
  diptych::testing::expect_same_bits(as_it_stands, eager, "as it stands");
  JitFunction compiled(
      [&](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) { return function(inputs); },
      {.pipeline = diptych::testing::fusing_all()});
  diptych::testing::expect_same_bits(compiled.call(arguments, Location::current()).outputs, eager, "compiled");
  return true;
}

class GraphMutator {
 public:
  GraphMutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    const std::size_t times = 1 + below(3);
    for (std::size_t i = 0; i < times && !text.empty(); ++i) {
      mutate(text);
    }
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  /// Start and length of some word, number or sign.
  std::pair<std::size_t, std::size_t> token(const std::string& text) {
    const std::size_t begin = below(text.size());
    std::size_t end = begin + 1;
    while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0 &&
           std::isalnum(static_cast<unsigned char>(text[begin])) != 0) {
      ++end;
    }
    return {begin, end - begin};
  }

  void mutate(std::string& text) {
    static const std::vector<std::string> dictionary{"%0",
                                                     "%1",
                                                     "%99",
                                                     "f32[2]",
                                                     "i64[]",
                                                     "bool[0]",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "(",
                                                     ")",
                                                     ",",
                                                     "=",
                                                     "@",
                                                     "update",
                                                     "return",
                                                     "const",
                                                     "splat",
                                                     "<-",
                                                     "nan",
                                                     "-inf",
                                                     "bits:0x7fc00001",
                                                     "\"",
                                                     "\\x",
                                                     "\\",
                                                     "-1",
                                                     "0",
                                                     "-0",
                                                     "9999",
                                                     "1099511627776",
                                                     "4611686018427388904",
                                                     "9223372036854775807",
                                                     "-9223372036854775808",
                                                     "add",
                                                     "sum",
                                                     "matmul",
                                                     "slice",
                                                     "axes=[0,0]",
                                                     "\n",
                                                     "state",
                                                     "captured",
                                                     "graph",
                                                     "true"};
    const std::size_t at = below(text.size());
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ static_cast<char>(1U << below(8)));
        break;
      case 1:
        text.resize(at);
        break;
      case 2: {
        const auto [from, length] = token(text);
        const std::string word = text.substr(from, length);
        const auto [to, other_length] = token(text);
        text.replace(to, other_length, word);
        break;
      }
      case 3:
        text[at] = static_cast<char>(below(256));
        break;
      case 4:
        text.insert(at, dictionary[below(dictionary.size())]);
        break;
      case 5: {
        const auto [from, length] = token(text);
        text.replace(from, length, dictionary[below(dictionary.size())]);
        break;
      }
      case 6:
        text.erase(at, 1 + below(12));
        break;
      default: {  // a line twice, somewhere else
        const std::size_t begin = text.rfind('\n', at) + 1;
        const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        text.insert(text.rfind('\n', below(text.size())) + 1, text.substr(begin, end > begin ? end - begin : 0));
      }
    }
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

TEST(GraphTextFuzz, DamagedTextsAreRefusedOrGood) {
  const std::vector<std::string> corpus = seed_graphs();
  for (const std::string& text : corpus) {
    ASSERT_EQ(print(parse(text)), text);
  }
  EXPECT_TRUE(std::any_of(corpus.begin(), corpus.end(),
                          [](const std::string& text) { return text.find("= fused(") != std::string::npos; }));
  for (const char* inside : {"= matmul(", "= linear(", "},\n    graph \"fused\""}) {  // epilogues, several regions
    EXPECT_TRUE(std::any_of(corpus.begin(), corpus.end(), [&](const std::string& text) {
      const std::size_t fused = text.find("= fused(");
      return fused != std::string::npos && text.find(inside, fused) != std::string::npos;
    })) << inside;
  }
  const diptych::testing::FuzzBudget budget(20240607);
  GraphMutator mutator(corpus, budget.seed());
  std::size_t tried = 0;
  std::size_t accepted = 0;
  std::size_t ran = 0;
  while (budget.lasts_tries(tried, 30000)) {
    const std::string text = mutator.next();
    ++tried;
    try {
      const Graph graph = parse(text);
      ++accepted;
      ASSERT_NO_THROW(verify(graph)) << text;
      const std::string printed = print(graph);
      ASSERT_EQ(print(parse(printed)), printed) << text;
      if (is_quick(graph)) {
        ran += runs_alike(graph) ? 1 : 0;
        ASSERT_FALSE(::testing::Test::HasFailure()) << text;
      }
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()), "") << text;
    } catch (const std::exception& error) {
      FAIL() << "not an Error: " << error.what() << "\n" << text;
    }
  }
  std::printf("seed %llu: %zu tried, %zu accepted, %zu ran\n", static_cast<unsigned long long>(budget.seed()), tried,
              accepted, ran);
  EXPECT_GT(accepted, tried / 50) << "damage that the parser can't see is tried too";
  EXPECT_LT(accepted, tried / 2);
  EXPECT_GT(ran, accepted / 4);
}

TEST(GraphTextFuzz, EveryPrefixIsRefused) {
  for (const std::string& text : seed_graphs()) {
    for (std::size_t length = 0; length + 2 < text.size(); ++length) {
      EXPECT_THROW(parse(std::string_view(text).substr(0, length)), Error) << length;
    }
  }
}

TEST(GraphTextFuzz, NoiseIsRefused) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string noise = random() % 2 == 0 ? "graph \"g\"(" : "";
    const std::size_t length = random() % 200;
    for (std::size_t k = 0; k < length; ++k) {
      noise += static_cast<char>(random());
    }
    EXPECT_THROW(parse(noise), Error);
  }
}

TEST(GraphTextFuzz, DeepAndLongTextsEnd) {
  for (const char* piece : {"[", "(", "{", "%0, ", "\\", "f32[", "@ [", "\n"}) {
    std::string text = "graph \"g\"(%0: f32[2] argument \"x\") {\n %1: f32[2] = exp(";
    for (int i = 0; i < 20000; ++i) {
      text += piece;
    }
    EXPECT_THROW(parse(text), Error) << piece;
  }
}

}  // namespace
}  // namespace diptych::graph
