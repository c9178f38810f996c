// What a module of ours does is said to be done where it was called: in messages, and in graphs.

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/capture.h"
#include "framework/diptych.h"
#include "framework/dispatch/op.h"

namespace diptych::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Called {
  const char* name;
  std::shared_ptr<ModuleBase> module;
  TensorType input;
  TensorType wrong;  ///< an input that it refuses
};

Tensor call_at(ModuleBase& module, const Tensor& x, Location where) {
  if (auto* const attention = dynamic_cast<MultiHeadAttention*>(&module)) {
    return (*attention)(x, where);
  }
  if (auto* const layer = dynamic_cast<TransformerEncoderLayer*>(&module)) {
    return (*layer)(x, where);
  }
  return dynamic_cast<Module&>(module)(x, where);
}

TensorType of(const Shape& shape, DType dtype = DType::float32) { return {dtype, shape}; }

/// Every module of framework/nn.
std::vector<Called> modules() {
  Rng rng(1);
  const TensorType rows = of({2, 6});
  const TensorType image = of({2, 4, 8, 8});
  const TensorType signal = of({2, 4, 8});
  const TensorType words = of({2, 3, 8});
  const TensorType integers = of({2, 6}, DType::int64);
  const TensorType scalar = of({});
  const auto every = [](auto... module) { return std::vector<ModulePtr>{module...}; };
  const Generator generator(1);
  std::vector<Called> all = {
      {"Linear", std::make_shared<Linear>(6, 3, rng), rows, of({2, 5})},
      {"PatchEmbed", std::make_shared<PatchEmbed>(4, 2, 5, rng), image, rows},
      {"Flatten", std::make_shared<Flatten>(), image, scalar},
      {"Sequential",
       std::make_shared<Sequential>(
           every(std::make_shared<Linear>(6, 3, rng), std::make_shared<ReLU>(), std::make_shared<Linear>(3, 2, rng))),
       rows, of({2, 5})},
      {"Conv2d", std::make_shared<Conv2d>(4, 2, Dims{3}, rng), image, rows},
      {"Conv1d", std::make_shared<Conv1d>(4, 2, 3, rng), signal, rows},
      {"Embedding", std::make_shared<Embedding>(9, 4, rng), integers, rows},
      {"Dropout", std::make_shared<Dropout>(0.5, generator), rows, integers},
      {"BatchNorm1d", std::make_shared<BatchNorm1d>(6), rows, image},
      {"BatchNorm2d", std::make_shared<BatchNorm2d>(4), image, rows},
      {"LayerNorm", std::make_shared<LayerNorm>(Shape{6}), rows, of({2, 5})},
      {"RMSNorm", std::make_shared<RMSNorm>(Shape{6}), rows, of({2, 5})},
      {"GroupNorm", std::make_shared<GroupNorm>(2, 4), image, rows},
      {"MultiHeadAttention",
       std::make_shared<MultiHeadAttention>(8, 2, rng,
                                            MultiHeadAttentionOptions{.dropout = 0.5, .generator = generator}),
       words, rows},
      {"TransformerEncoderLayer",
       std::make_shared<TransformerEncoderLayer>(
           8, 2, rng, TransformerEncoderLayerOptions{.dim_feedforward = 16, .generator = generator}),
       words, rows},
      {"TransformerEncoderLayer, norm first",
       std::make_shared<TransformerEncoderLayer>(
           8, 2, rng,
           TransformerEncoderLayerOptions{.dim_feedforward = 16, .norm_first = true, .generator = generator}),
       words, rows},
      {"MaxPool1d", std::make_shared<MaxPool1d>(Dims{2}), signal, rows},
      {"MaxPool2d", std::make_shared<MaxPool2d>(Dims{2}), image, rows},
      {"AvgPool1d", std::make_shared<AvgPool1d>(Dims{2}), signal, rows},
      {"AvgPool2d", std::make_shared<AvgPool2d>(Dims{2}), image, rows},
      {"AdaptiveMaxPool1d", std::make_shared<AdaptiveMaxPool1d>(Dims{2}), signal, rows},
      {"AdaptiveMaxPool2d", std::make_shared<AdaptiveMaxPool2d>(Dims{2}), image, rows},
      {"AdaptiveAvgPool1d", std::make_shared<AdaptiveAvgPool1d>(Dims{3}), signal, rows},
      {"AdaptiveAvgPool2d", std::make_shared<AdaptiveAvgPool2d>(Dims{3}), image, rows},
      {"GlobalMaxPool1d", std::make_shared<GlobalMaxPool1d>(), signal, rows},
      {"GlobalMaxPool2d", std::make_shared<GlobalMaxPool2d>(), image, rows},
      {"GlobalAvgPool1d", std::make_shared<GlobalAvgPool1d>(), signal, rows},
      {"GlobalAvgPool2d", std::make_shared<GlobalAvgPool2d>(), image, rows},
      {"Softmax", std::make_shared<Softmax>(), rows, scalar},
      {"LeakyReLU", std::make_shared<LeakyReLU>(), rows, integers},
      {"ELU", std::make_shared<ELU>(), rows, integers},
      {"Softplus", std::make_shared<Softplus>(), rows, integers},
  };
  for (const char* name : {"relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"}) {
    all.push_back({name, activation_by_name(name), rows, of({2}, DType::boolean)});
  }
  all.push_back({"HardSigmoid", std::make_shared<HardSigmoid>(), rows, integers});
  all.push_back({"HardSwish", std::make_shared<HardSwish>(), rows, integers});
  return all;
}

constexpr Location kCall{"user.cpp", 12};

TEST(Callers, NodesOfAGraphAreWhereTheirModuleWasCalled) {
  for (const Called& called : modules()) {
    for (const bool trains : {true, false}) {
      called.module->train(trains);
      graph::Capture capture(called.name);
      const graph::CaptureScope scope(capture);
      const Tensor result = call_at(*called.module, capture.argument(called.input, "x"), kCall);
      const graph::Graph graph = capture.finish(std::span(&result, 1), kCall);
      EXPECT_TRUE(!graph.nodes.empty() || (std::string_view(called.name) == "Dropout" && !trains)) << called.name;
      for (const graph::Node& node : graph.nodes) {
        EXPECT_EQ(to_string(node.provenance.where), "user.cpp:12") << called.name << ": " << node.op->name;
      }
    }
  }
}

TEST(Callers, MessagesNameTheLineThatCalledTheModule) {
  int refused = 0;
  for (const Called& called : modules()) {
    for (const bool hooked : {false, true}) {
      std::vector<RemovableHandle> handles;
      if (hooked) {
        handles.push_back(called.module->register_forward_hook([](ModuleBase&, Inputs, Tensor&) {}));
      }
      try {
        call_at(*called.module, full(called.wrong.shape, 1, called.wrong.dtype), kCall);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("at user.cpp:12")) << called.name;
        EXPECT_THAT(error.what(), Not(HasSubstr("framework"))) << called.name;
        ++refused;
      }
      for (RemovableHandle& handle : handles) {
        handle.remove();
      }
    }
  }
  EXPECT_GE(refused, 2 * 24);
}

/// A user's own module: its lines are the user's.
struct Own : Module {
  explicit Own(Rng& rng) : inner(add("inner", std::make_shared<Linear>(4, 2, rng))) {}
  Tensor forward(const Tensor& x) override {
    line = __LINE__ + 1;
    return relu((*inner)(x));
  }
  std::shared_ptr<Linear> inner;
  int line = 0;
};

TEST(Callers, WhatAModuleOfOnesOwnCallsIsAtItsLines) {
  Rng rng(1);
  Own own(rng);
  const auto said = [&](const Tensor& x) -> std::string {
    try {
      own(x, kCall);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said(zeros({3, 4})), "");
  EXPECT_THAT(said(zeros({3, 5})), HasSubstr("callers_test.cpp:" + std::to_string(own.line)));
}

TEST(Callers, AGraphOfAModuleIsWhereItWasFirstCalled) {
  Rng rng(1);
  Linear module(4, 2, rng);
  set_mode(Mode::graph);
  std::string said;
  try {
    module(zeros({3, 5}), kCall);
  } catch (const ShapeError& error) {
    said = error.what();
  }
  set_mode(Mode::eager);
  EXPECT_THAT(said, HasSubstr("user.cpp:12"));
}

}  // namespace
}  // namespace diptych::nn
