// Training steps on several threads have the bits of those on one. ThreadSanitizer watches these tests.

#include <thread>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

/// With every kind of kernel: convolutions, batch norm, pooling, products, attention, layer norm, random masks.
class Model : public nn::Module {
 public:
  explicit Model(Rng& rng)
      : conv_(add("conv", std::make_shared<nn::Conv2d>(3, 20, Dims{3}, rng))),
        norm_(add("norm", std::make_shared<nn::BatchNorm2d>(20))),
        deep_(add("deep", std::make_shared<nn::Conv2d>(20, 40, Dims{3}, rng))),
        block_(add("block",
                   std::make_shared<nn::TransformerEncoderLayer>(
                       40, 4, rng, nn::TransformerEncoderLayerOptions{.dropout = 0.2, .generator = Generator(7)}))),
        head_(add("head", std::make_shared<nn::Linear>(40, 10, rng))) {}

  Tensor forward(const Tensor& x) override {
    const Tensor planes = (*deep_)(max_pool2d(relu((*norm_)((*conv_)(x))), {2}));
    const Tensor tokens = transpose(reshape(planes, {planes.shape()[0], 40, -1}));
    return (*head_)(mean((*block_)(tokens), {1}));
  }

 private:
  std::shared_ptr<nn::Conv2d> conv_;
  std::shared_ptr<nn::BatchNorm2d> norm_;
  std::shared_ptr<nn::Conv2d> deep_;
  std::shared_ptr<nn::TransformerEncoderLayer> block_;
  std::shared_ptr<nn::Linear> head_;
};

/// Losses and state after a few steps.
std::vector<Tensor> train(bool as_graph) {
  Rng rng(3);
  Model model(rng);
  const Variables parameters = model.parameters();
  optim::Adam optimizer(parameters, 1e-2);
  auto loss = value_and_grad([&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
                             {.weights = parameters});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const auto result = loss(x, y);
    optimizer.step(result.weights);
    return result.value;
  };
  auto captured = jit(step);
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = rng.normal({5, 3, 16, 16});
    const Tensor y = arange(5, DType::int64);
    results.push_back(as_graph ? captured(x, y) : step(x, y));
  }
  for (const Variable& variable : model.state()) {
    results.push_back(variable.value());
  }
  return results;
}

void expect_same(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(expected[i], actual[i])) << "result " << i;
  }
}

TEST(Threads, TrainToTheSameBits) {
  const std::vector<Tensor> alone = train(false);
  for (const int threads : {2, 3, 4}) {
    const WithThreads with(threads, true);
    SCOPED_TRACE(std::to_string(threads) + " threads");
    expect_same(alone, train(false));
    expect_same(alone, train(true));
  }
}

TEST(Threads, ComputeForProgramsOnSeveralThreads) {
  const std::vector<Tensor> alone = train(false);
  const WithThreads with(3, true);
  std::vector<std::vector<Tensor>> results(3);
  std::vector<std::thread> programs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    programs.emplace_back([&results, i] { results[i] = train(i == 0); });
  }
  for (std::thread& program : programs) {
    program.join();
  }
  for (const std::vector<Tensor>& result : results) {
    expect_same(alone, result);
  }
}

}  // namespace
}  // namespace diptych::testing
