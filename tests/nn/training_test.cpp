// Whole training runs: the same bits in every mode, and real learning on real digits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/places.h"

namespace diptych {
namespace {

enum class How { eager, replay, graph, mode };

struct TrainingRun {
  std::vector<Tensor> losses;
  std::vector<Tensor> state;
  double accuracy = 0;
};

std::shared_ptr<nn::Sequential> classifier(Rng& rng, bool gelu, std::int64_t width = 48) {
  const auto activation = [&]() -> nn::ModulePtr {
    return gelu ? nn::ModulePtr(std::make_shared<nn::GELU>()) : std::make_shared<nn::ReLU>();
  };
  return std::make_shared<nn::Sequential>(std::vector<nn::ModulePtr>{
      std::make_shared<nn::Linear>(64, width, rng), activation(), std::make_shared<nn::Linear>(width, width / 2, rng),
      activation(), std::make_shared<nn::Linear>(width / 2, 10, rng)});
}

TrainingRun train(How how, bool gelu, bool adam, std::int64_t steps, std::int64_t width = 48) {
  const data::Split digits = data::split(data::load_digits(testing::places::digits()), 0.2, 3);
  Rng rng(5);
  const auto model = classifier(rng, gelu, width);
  const Variables parameters = model->parameters();
  std::unique_ptr<optim::Optimizer> optimizer;
  if (adam) {
    optimizer = std::make_unique<optim::Adam>(parameters, 2e-3);
  } else {
    optimizer = std::make_unique<optim::SGD>(parameters, 0.05, 0.9);
  }
  auto loss = value_and_grad([&](const Tensor& x, const Tensor& y) { return cross_entropy((*model)(x), y); },
                             {.weights = parameters});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const auto result = loss(x, y);
    optimizer->step(result.weights);
    return result.value;
  };
  graph::JitOptions options;
  if (how == How::replay) {
    options.pipeline = passes::PipelineOptions::none();
  }
  auto captured = jit(step, options);

  TrainingRun run;
  data::Batches batches(digits.train, 64, 9);
  set_mode(how == How::mode ? Mode::graph : Mode::eager);
  for (std::int64_t i = 0; i < steps; ++i) {
    const data::Dataset batch = batches[i];
    run.losses.push_back(how == How::eager || how == How::mode ? step(batch.inputs, batch.labels)
                                                               : captured(batch.inputs, batch.labels));
  }
  run.accuracy = mean(equal(argmax((*model)(digits.test.inputs), -1), digits.test.labels)).item();
  set_mode(Mode::eager);
  for (const Variable& variable : parameters) {
    run.state.push_back(variable.value());
  }
  for (const Variable& variable : optimizer->state()) {
    run.state.push_back(variable.value());
  }
  return run;
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual, const char* what) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(bitwise_equal(expected[i], actual[i])) << what << " " << i;
  }
}

class Training : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Training, EveryModeGivesTheSameBits) {
  const auto [gelu, adam] = GetParam();
  const TrainingRun eager = train(How::eager, gelu, adam, 100);
  for (const How how : {How::replay, How::graph, How::mode}) {
    const TrainingRun other = train(how, gelu, adam, 100);
    expect_equal(eager.losses, other.losses, "loss");
    expect_equal(eager.state, other.state, "state");
    EXPECT_EQ(eager.accuracy, other.accuracy);
  }
  EXPECT_LT(eager.losses.back().item(), 0.5 * eager.losses.front().item());
}

INSTANTIATE_TEST_SUITE_P(Models, Training, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST(Training, LearnsTheDigits) { EXPECT_GE(train(How::graph, false, true, 22 * 40, 128).accuracy, 0.95); }

TEST(SetMode, MakesGraphsOfModulesTransformsAndSteps) {
  Rng rng(1);
  nn::Linear layer(4, 3, rng);
  const Tensor x = rng.normal({2, 4});
  const Tensor eager = layer(x);
  set_mode(Mode::graph);
  const std::uint64_t before = thread_context.dispatches;
  const Tensor first = layer(x);
  const std::uint64_t captured = thread_context.dispatches - before;
  const Tensor second = layer(x);
  const std::uint64_t replayed = thread_context.dispatches - before - captured;
  set_mode(Mode::eager);
  EXPECT_GT(captured, 0U);
  EXPECT_EQ(replayed, 0U) << "the second call is a replay: no op is dispatched";
  EXPECT_TRUE(bitwise_equal(eager, first));
  EXPECT_TRUE(bitwise_equal(eager, second));
}

TEST(SetMode, ModulesSeeNewParameters) {
  Rng rng(1);
  nn::Linear layer(2, 2, rng);
  set_mode(Mode::graph);
  const Tensor x = rng.normal({1, 2});
  layer(x);
  layer.bias.assign(full({2}, 100));
  const Tensor after = layer(x);
  set_mode(Mode::eager);
  EXPECT_TRUE(bitwise_equal(after, layer(x)));
}

// A hundred rounds of a chaotic map: a single different bit would be a different result.
TEST(Chaos, OnlyABitwiseContractSurvivesIt) {
  Rng rng(2);
  const Tensor z = rng.normal({64, 64});
  const Tensor w = rng.normal({64, 64});
  const auto program = [](const Tensor& x, const Tensor& y) {
    Tensor state = x;
    for (int i = 0; i < 100; ++i) {
      state = tanh(matmul(state, y));
    }
    return state;
  };
  const Tensor eager = program(z, w);
  auto graph = jit(program);
  EXPECT_TRUE(bitwise_equal(eager, graph(z, w)));
  EXPECT_TRUE(bitwise_equal(eager, graph(z, w)));
  // And it is chaotic: the last bit of the inputs changes everything.
  std::vector<float> nudged = z.to_vector<float>();
  for (float& value : nudged) {
    value = std::nextafter(value, 10.0F);
  }
  const Tensor moved = program(Tensor::from(nudged, z.shape()), w);
  EXPECT_GT(max(abs(moved - eager)).item(), 0.5);
}

TEST(Module, NamesParametersByPath) {
  Rng rng(1);
  const auto model = classifier(rng, false);
  std::vector<std::string> names;
  for (const Variable& parameter : model->parameters()) {
    names.push_back(parameter.name());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"));
}

TEST(Loss, MeanSquaredErrorRefusesToBroadcast) {
  EXPECT_EQ(mse_loss(Tensor::from({1.0F, 3.0F}, {2}), zeros({2})).item(), 5);
  EXPECT_THROW(mse_loss(zeros({2, 1}), zeros({2})), ShapeError);
}

}  // namespace
}  // namespace diptych
