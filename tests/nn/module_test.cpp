// Modules as programs use them: names, train and eval, several inputs, hooks; in eager and in graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GraphMode {
 public:
  GraphMode() { set_mode(Mode::graph); }
  ~GraphMode() { set_mode(Mode::eager); }
  GraphMode(const GraphMode&) = delete;
  GraphMode& operator=(const GraphMode&) = delete;
};

/// Twice the input in training, its negative otherwise.
struct Switch : Module {
  Tensor forward(const Tensor& x) override { return is_training() ? x * 2.0 : -x; }
};

struct Scale : Module {
  Scale() {
    factor = parameter("factor", full({}, 3));
    seen = buffer("seen", zeros({}));
  }
  Tensor forward(const Tensor& x) override {
    seen.assign(seen.value() + 1);
    return x * factor;
  }
  Variable factor, seen;
};

struct Tree : Module {
  explicit Tree(const std::shared_ptr<Scale>& shared) {
    left = add("left", shared);
    middle = add("middle", std::make_shared<Sequential>(std::vector<ModulePtr>{std::make_shared<Switch>(), shared}));
    own = parameter("own", ones({2}));
  }
  Tensor forward(const Tensor& x) override { return (*middle)((*left)(x)) + own; }
  std::shared_ptr<Scale> left;
  std::shared_ptr<Sequential> middle;
  Variable own;
};

std::vector<std::string> names(const NamedVariables& variables) {
  std::vector<std::string> all;
  for (const auto& [name, variable] : variables) {
    all.push_back(name);
  }
  return all;
}

TEST(ModuleNames, ArePathsAndASharedModuleIsListedOnce) {
  Tree tree(std::make_shared<Scale>());
  EXPECT_THAT(names(tree.named_parameters()), ElementsAre("own", "left.factor"));
  EXPECT_THAT(names(tree.named_buffers()), ElementsAre("left.seen"));
  EXPECT_EQ(tree.state().size(), 3U);
  const auto root =
      std::make_shared<Sequential>(std::vector<ModulePtr>{std::make_shared<Tree>(std::make_shared<Scale>())});
  EXPECT_THAT(names(root->named_parameters()), ElementsAre("0.own", "0.left.factor"));
  // Variables carry the same names, for optimizers, graphs and checkpoints.
  EXPECT_EQ(root->parameters()[1].name(), "0.left.factor");
  EXPECT_EQ(root->buffers()[0].name(), "0.left.seen");
  std::vector<std::string> modules;
  for (const auto& [path, module] : root->named_modules()) {
    modules.push_back(path);
  }
  EXPECT_THAT(modules, ElementsAre("", "0", "0.left", "0.middle", "0.middle.0"));
}

struct Clash : Module {
  explicit Clash(const std::string& name) {
    parameter("w", zeros({1}));
    buffer("running", zeros({1}));
    add("part", std::make_shared<Identity>());
    name == "module" ? void(add("w", std::make_shared<Identity>())) : void(parameter(name, zeros({1})));
  }
  Tensor forward(const Tensor& x) override { return x; }
};

TEST(ModuleNames, AreRefusedIfTakenOrNoStepOfAPath) {
  for (const char* name : {"w", "running", "part", "", "a.b", "module"}) {
    EXPECT_THROW(Clash{name}, Error) << name;
  }
  EXPECT_NO_THROW(Clash{"other"});
  EXPECT_THROW(Sequential({nullptr}), Error);
}

TEST(TrainAndEval, SwitchEverythingBelow) {
  Tree tree(std::make_shared<Scale>());
  EXPECT_TRUE(tree.middle->is_training());
  tree.eval();
  EXPECT_FALSE((*tree.middle)[0].is_training());
  tree.train();
  EXPECT_TRUE((*tree.middle)[0].is_training());
}

TEST(TrainAndEval, RecompileOnceAndBothGraphsStay) {
  Sequential model({std::make_shared<Switch>()});
  const Tensor x = ones({2});
  const GraphMode mode;
  for (int round = 0; round < 3; ++round) {
    model.train();
    EXPECT_EQ(model(x).to_vector<float>()[0], 2);
    model.eval();
    EXPECT_EQ(model(x).to_vector<float>()[0], -1);
  }
  ASSERT_EQ(model.ledger()->size(), 2U);
  EXPECT_EQ((*model.ledger())[0].cause, "first call");
  EXPECT_EQ((*model.ledger())[1].cause, "training of '0': 1 -> 0");
  EXPECT_EQ((*model.ledger())[0].calls, 3U);
}

TEST(TrainAndEval, AreSeenByFunctionsThatWereCaptured) {
  const auto model = std::make_shared<Sequential>(std::vector<ModulePtr>{std::make_shared<Switch>()});
  auto captured = jit([&](const Tensor& x) { return (*model)(x) + 0.5; });
  const Tensor x = ones({2});
  EXPECT_EQ(captured(x).to_vector<float>()[0], 2.5);
  model->eval();
  EXPECT_EQ(captured(x).to_vector<float>()[0], -0.5);
  model->train();
  EXPECT_EQ(captured(x).to_vector<float>()[0], 2.5);
  EXPECT_EQ(captured.compiled()->ledger().size(), 2U);
  // A module that the graph doesn't use is no part of its signature.
  Switch other;
  other.eval();
  captured(x);
  EXPECT_EQ(captured.compiled()->ledger().size(), 2U);
}

TEST(TrainAndEval, GradientsFollow) {
  Switch module;
  auto gradient = grad([&](const Tensor& x) { return sum(module(x)); });
  for (const bool graph : {false, true}) {
    set_mode(graph ? Mode::graph : Mode::eager);
    module.train();
    EXPECT_EQ(gradient(ones({1})).item(), 2);
    module.eval();
    EXPECT_EQ(gradient(ones({1})).item(), -1);
  }
  set_mode(Mode::eager);
}

TEST(Buffers, AreStateOfAGraph) {
  const auto scale = std::make_shared<Scale>();
  const GraphMode mode;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ((*scale)(ones({})).item(), 3);
  }
  EXPECT_EQ(scale->seen.value().item(), 4);
  EXPECT_EQ(scale->ledger()->size(), 1U);
}

/// With a second input that may be left out.
struct Blend : ModuleOf<3> {
  Tensor forward(const Tensor& x, const Tensor& y, const Tensor& mask) override {
    return mask.defined() ? where(mask, x, y) : x - y;
  }
};

TEST(ModuleOf, SeveralInputsInEveryMode) {
  Blend blend;
  const Tensor x = Tensor::from({1.0F, 2.0F}, {2});
  const Tensor y = Tensor::from({10.0F, 20.0F}, {2});
  const Tensor mask = Tensor::from({true, false}, {2});
  for (const bool graph : {false, true}) {
    set_mode(graph ? Mode::graph : Mode::eager);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(blend(x, y, mask).to_vector<float>(), (std::vector<float>{1, 20}));
      EXPECT_EQ(blend(x, y, {}).to_vector<float>(), (std::vector<float>{-9, -18}));
    }
  }
  EXPECT_EQ(blend.ledger()->size(), 1U) << "one graph for each set of inputs that are there";
  set_mode(Mode::eager);
}

TEST(ModuleList, NamesItsModules) {
  Rng rng(1);
  struct Stack : Module {
    explicit Stack(Rng& random) {
      parts = add("parts", std::make_shared<ModuleList<Linear>>());
      parts->append(std::make_shared<Linear>(2, 2, random, LinearOptions{.bias = false}));
      parts->append(std::make_shared<Linear>(2, 2, random, LinearOptions{.bias = false}));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (const auto& part : *parts) {
        y = (*part)(y);
      }
      return y;
    }
    std::shared_ptr<ModuleList<Linear>> parts;
  };
  Stack stack(rng);
  EXPECT_THAT(names(stack.named_parameters()), ElementsAre("parts.0.weight", "parts.1.weight"));
  EXPECT_EQ(stack(ones({3, 2})).shape(), (Shape{3, 2}));
}

// ---- hooks

TEST(ForwardHooks, ChangeInputsAndOutputsInOrderUntilRemoved) {
  Identity module;
  std::string order;
  RemovableHandle pre = module.register_forward_pre_hook([&](ModuleBase&, std::vector<Tensor>& inputs) {
    order += "p";
    inputs[0] = inputs[0] + 1.0;
  });
  RemovableHandle first = module.register_forward_hook([&](ModuleBase& self, Inputs inputs, Tensor& output) {
    EXPECT_EQ(&self, &module);
    EXPECT_EQ(inputs[0].item(), 2);
    order += "a";
    output = output * 10.0;
  });
  module.register_forward_hook([&](ModuleBase&, Inputs, Tensor& output) {
    order += "b";
    output = output + 5.0;
  });
  EXPECT_EQ(module(ones({})).item(), 25);
  EXPECT_EQ(order, "pab");
  first.remove();
  first.remove();
  EXPECT_EQ(module(ones({})).item(), 7);
  pre.remove();
  EXPECT_EQ(module(ones({})).item(), 6);
}

TEST(ForwardHooks, AreCapturedAndTheirChangeCapturesAnew) {
  const auto module = std::make_shared<Identity>();
  auto captured = jit([&](const Tensor& x) { return (*module)(x); });
  EXPECT_EQ(captured(ones({})).item(), 1);
  int calls = 0;
  RemovableHandle handle = module->register_forward_hook([&](ModuleBase&, Inputs, Tensor& output) {
    ++calls;
    output = output * 4.0;
  });
  EXPECT_EQ(captured(ones({})).item(), 4);
  EXPECT_EQ(captured(ones({})).item(), 4);
  EXPECT_EQ(calls, 1) << "a replay runs no host code";
  handle.remove();
  EXPECT_EQ(captured(ones({})).item(), 1);
  EXPECT_EQ(captured.compiled()->ledger().size(), 2U) << "the graph without hooks was still there";
}

TEST(ForwardHooks, MayRemoveThemselvesAndOutliveTheirModule) {
  auto module = std::make_unique<Identity>();
  RemovableHandle handle;
  int calls = 0;
  handle = module->register_forward_hook([&](ModuleBase&, Inputs, Tensor&) {
    ++calls;
    handle.remove();
  });
  (*module)(ones({}));
  (*module)(ones({}));
  EXPECT_EQ(calls, 1);
  RemovableHandle late = module->register_forward_hook([](ModuleBase&, Inputs, Tensor&) {});
  module.reset();
  late.remove();
}

/// y = a^2 b; the hooks see and change gradients.
struct Product : ModuleOf<2> {
  Tensor forward(const Tensor& a, const Tensor& b) override { return square(a) * b; }
};

class BackwardHooks : public ::testing::TestWithParam<const char*> {
 protected:
  /// Gradients of 5 * product(a, b) by a and b, run as the parameter says.
  std::vector<double> gradients(Product& product) {
    const auto function = [&](const Tensor& a, const Tensor& b) { return product(a, b) * 5.0; };
    const std::string how = GetParam();
    const Tensor a = full({}, 3);
    const Tensor b = full({}, 2);
    std::vector<Tensor> result;
    if (how == "jit") {
      auto captured = jit([&](const Tensor& x, const Tensor& y) {
        return value_and_grad(function, {.arguments = {0, 1}})(x, y).arguments;
      });
      captured(a, b);
      result = captured(a, b);
    } else {
      set_mode(how == "mode" ? Mode::graph : Mode::eager);
      if (how == "module graph") {  // the graph of the module alone, under an eager tape
        const Tensor x = requires_grad(a);
        const Tensor y = requires_grad(b);
        set_mode(Mode::graph);
        Tensor output = product(x, y);
        set_mode(Mode::eager);
        result = autograd::grad(output * 5.0, {x, y});
      } else {
        result = value_and_grad(function, {.arguments = {0, 1}})(a, b).arguments;
      }
      set_mode(Mode::eager);
    }
    return {result[0].item(), result[1].item()};
  }
};

TEST_P(BackwardHooks, SeeAndChangeGradients) {
  Product product;
  EXPECT_THAT(gradients(product), ElementsAre(60, 45));
  RemovableHandle pre =
      product.register_full_backward_pre_hook([](ModuleBase&, Tensor& output) { output = output * 2.0; });
  EXPECT_THAT(gradients(product), ElementsAre(120, 90));
  RemovableHandle full_hook =
      product.register_full_backward_hook([](ModuleBase&, std::vector<Tensor>& inputs, const Tensor& output) {
        ASSERT_EQ(inputs.size(), 2U);
        inputs[0] = inputs[0] + output;  // 120 + 10
      });
  EXPECT_THAT(gradients(product), ElementsAre(130, 90));
  pre.remove();
  EXPECT_THAT(gradients(product), ElementsAre(65, 45));
  full_hook.remove();
  EXPECT_THAT(gradients(product), ElementsAre(60, 45));
}

INSTANTIATE_TEST_SUITE_P(How, BackwardHooks, ::testing::Values("eager", "jit", "mode", "module graph"),
                         [](const auto& instance) {
                           const std::string name = instance.param;
                           return name == "module graph" ? std::string("module_graph") : name;
                         });

TEST(BackwardHook, WithoutWatchedInputsSeesTheOutputs) {
  Rng rng(1);
  Linear layer(2, 3, rng);
  double seen = 0;
  layer.register_full_backward_hook([&](ModuleBase&, std::vector<Tensor>& inputs, const Tensor& output) {
    EXPECT_FALSE(inputs[0].defined());
    seen = sum(output).item();
  });
  value_and_grad([&](const Tensor& x) { return sum(layer(x)); }, {.weights = layer.parameters()})(ones({4, 2}));
  EXPECT_EQ(seen, 12);
}

TEST(BackwardHook, ForwardModeGoesThroughIt) {
  Product product;
  product.register_full_backward_pre_hook([](ModuleBase&, Tensor&) { FAIL() << "no backward pass here"; });
  const auto [value, tangent] =
      jvp([&](const Tensor& a) { return product(a, a); }, std::tuple(full({}, 2)), std::tuple(full({}, 1)));
  EXPECT_EQ(tangent.item(), 12);
}

// ---- layers that are nothing but arithmetic

TEST(PatchEmbed, IsALinearMapOfEveryPatch) {
  Rng rng(3);
  PatchEmbed embed(2, 3, 5, rng);
  const Tensor x = rng.normal({2, 2, 6, 9});
  const Tensor y = embed(x);
  ASSERT_EQ(y.shape(), (Shape{2, 6, 5}));
  const std::vector<float> in = x.to_vector<float>();
  const std::vector<float> weight = embed.parameters()[0].value().to_vector<float>();
  const std::vector<float> bias = embed.parameters()[1].value().to_vector<float>();
  const std::vector<float> out = y.to_vector<float>();
  for (int n = 0; n < 2; ++n) {
    for (int patch = 0; patch < 6; ++patch) {
      for (int o = 0; o < 5; ++o) {
        double expected = bias[static_cast<std::size_t>(o)];
        for (int k = 0; k < 18; ++k) {
          const int c = k / 9;
          const int row = patch / 3 * 3 + k / 3 % 3;
          const int column = patch % 3 * 3 + k % 3;
          expected += in[static_cast<std::size_t>(((n * 2 + c) * 6 + row) * 9 + column)] *
                      weight[static_cast<std::size_t>(o * 18 + k)];
        }
        EXPECT_NEAR(out[static_cast<std::size_t>((n * 6 + patch) * 5 + o)], expected, 1e-5);
      }
    }
  }
  EXPECT_THROW(embed(zeros({1, 2, 7, 9})), ShapeError);
  EXPECT_THROW(embed(zeros({1, 3, 6, 9})), ShapeError);
  EXPECT_THROW(embed(zeros({2, 6, 9})), ShapeError);
}

TEST(Flatten, JoinsAxes) {
  EXPECT_EQ(Flatten()(zeros({2, 3, 4, 5})).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(0, 1)(zeros({2, 3, 4})).shape(), (Shape{6, 4}));
  EXPECT_EQ(Flatten(-2)(zeros({2, 3, 4})).shape(), (Shape{2, 12}));
  EXPECT_EQ(Flatten(1)(zeros({2, 0, 4})).shape(), (Shape{2, 0}));
  EXPECT_THROW(Flatten(1)(zeros({2})), ShapeError);
}

TEST(Linear, WithoutBiasAndWithAnotherStart) {
  Rng rng(1);
  Linear layer(3, 2, rng, {.bias = false, .init = "ones", .dtype = DType::float64});
  EXPECT_EQ(layer.parameters().size(), 1U);
  EXPECT_EQ(to_string(layer(full({1, 3}, 2, DType::float64))), "f64[1,2] {6, 6}");
  EXPECT_THROW(Linear(0, 2, rng), Error);
}

// ---- initialisers: moments of the distribution, from its definition

struct Moments {
  double mean, deviation, largest;
};
Moments moments_of(const std::string& name) {
  Rng rng(7);
  const std::vector<double> values =
      init::by_name(name, rng, {100, 400}, {.in = 100, .out = 400}, DType::float64).to_vector<double>();
  Moments m{0, 0, 0};
  for (const double value : values) {
    m.mean += value / 40000;
    m.largest = std::max(m.largest, std::abs(value));
  }
  for (const double value : values) {
    m.deviation += (value - m.mean) * (value - m.mean) / 40000;
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(Init, HasTheMomentsOfItsDistribution) {
  struct Case {
    const char* name;
    double deviation, largest;  // 0: unbounded
  };
  const double root3 = std::sqrt(3.0);
  for (const Case& c :
       {Case{"uniform", 1 / root3, 1}, Case{"uniform(0.25)", 0.25 / root3, 0.25}, Case{"normal", 1, 0},
        Case{"normal(0.02)", 0.02, 0}, Case{"truncated_normal(0.5)", 0.5 * 0.87963, 1},
        Case{"fan_in_uniform", 0.1 / root3, 0.1}, Case{"xavier_uniform", std::sqrt(2.0 / 500), std::sqrt(6.0 / 500)},
        Case{"xavier_normal(2)", 2 * std::sqrt(2.0 / 500), 0},
        Case{"kaiming_uniform", std::sqrt(2.0 / 100), std::sqrt(6.0 / 100)}, Case{"kaiming_normal(1)", 0.1, 0}}) {
    const Moments m = moments_of(c.name);
    EXPECT_NEAR(m.deviation, c.deviation, 0.02 * c.deviation) << c.name;
    EXPECT_NEAR(m.mean, 0, 0.02 * c.deviation) << c.name;
    if (c.largest != 0) {
      EXPECT_LE(m.largest, c.largest) << c.name;
      EXPECT_GT(m.largest, 0.98 * c.largest) << c.name;
    }
  }
  EXPECT_EQ(moments_of("zeros").largest, 0);
  EXPECT_EQ(moments_of("ones").largest, 1);
  EXPECT_NEAR(moments_of("constant(-2.5)").mean, -2.5, 1e-9);
}

TEST(Init, UnknownNamesAndNumbersAreRefusedWithTheNames) {
  Rng rng(1);
  for (const char* name : {"", "kaiming", "normal(", "normal()", "normal(x)", "normal(1) ", "normal(1", "normal(-1)",
                           "normal(nan)", "normal(1e999)", "zeros(1)", "uniform(1,2)"}) {
    try {
      init::by_name(name, rng, {2}, {});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("xavier_uniform"));
    }
  }
}

}  // namespace
}  // namespace diptych::nn
