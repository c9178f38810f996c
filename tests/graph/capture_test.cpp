#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Read {
  const char* name;
  std::function<void(Tensor)> run;
};

TEST(Capture, ReadingATracedValueNamesTheOpTheLineAndTheWayOut) {
  const std::vector<Read> reads{{"item()", [](const Tensor& t) { t.item(); }},
                                {"data()", [](const Tensor& t) { t.data<float>(); }},
                                {"data()", [](Tensor t) { t.mutable_data<float>(); }},
                                {"to_vector()", [](const Tensor& t) { t.to_vector<float>(); }}};
  for (const Read& read : reads) {
    std::uint32_t line = 0;
    auto function = jit([&](const Tensor& x) {
      line = __builtin_LINE() + 1;
      const Tensor total = sum(x);
      read.run(total);
      return total;
    });
    const std::string message = message_of<CaptureError>([&] { function(f32({1, 2}, {2})); });
    EXPECT_THAT(message, HasSubstr(read.name));
    EXPECT_THAT(message, HasSubstr("sum at "));
    EXPECT_THAT(message, HasSubstr("capture_test.cpp:" + std::to_string(line)));
    EXPECT_THAT(message, AllOf(HasSubstr("f32[]"), HasSubstr("where()"), HasSubstr("outside")));
  }
}

TEST(Capture, ReadingATracedInputNamesTheInput) {
  auto by_argument = jit([](const Tensor& x) { return x * static_cast<float>(x.item()); });
  EXPECT_THAT(message_of<CaptureError>([&] { by_argument(Tensor::scalar(1.0F)); }), HasSubstr("argument 'argument0'"));
  const Variable rate(Tensor::scalar(0.1F), "learning rate");
  auto by_state = jit([&](const Tensor& x) { return x * static_cast<float>(rate.value().item()); });
  EXPECT_THAT(message_of<CaptureError>([&] { by_state(Tensor::scalar(1.0F)); }), HasSubstr("state 'learning rate'"));
}

TEST(Capture, WorksAgainAfterAFailedCapture) {
  bool read = true;
  Variable total(Tensor::scalar(0.0F), "total");
  auto function = jit([&](const Tensor& x) {
    const ModuleScope scope("outer");
    total.assign(total.value() + x);
    if (read) {
      static_cast<void>(x.item());
    }
    return total.value() * 2;
  });
  EXPECT_THROW(function(Tensor::scalar(1.0F)), CaptureError);
  EXPECT_EQ(thread_context.tracer(), nullptr);
  EXPECT_EQ(total.value().item(), 0) << "a failed capture assigns nothing";
  EXPECT_EQ((Tensor::scalar(2.0F) + 1).item(), 3) << "ops are eager again";
  EXPECT_TRUE(function.compiled()->ledger().empty());
  read = false;
  EXPECT_EQ(function(Tensor::scalar(1.0F)).item(), 2);
  EXPECT_STREQ(function.compiled()->graph()->nodes[0].provenance.scope, "outer") << "scopes are closed on the way out";
}

TEST(Capture, ATracedTensorThatLeakedIsRefusedByEveryone) {
  Tensor leaked;
  auto leak = jit([&](const Tensor& x) {
    leaked = exp(x);
    return leaked;
  });
  leak(f32({1, 2}, {2}));
  ASSERT_TRUE(leaked.is_traced());
  EXPECT_EQ(leaked.type(), (TensorType{DType::float32, {2}}));
  EXPECT_THAT(message_of<CaptureError>([&] { static_cast<void>(leaked.to_vector<float>()); }),
              HasSubstr("capture has ended"));
  EXPECT_THAT(message_of<CaptureError>([&] { add(leaked, leaked); }),
              AllOf(HasSubstr("add"), HasSubstr("capture has ended"), HasSubstr("return it")));
  EXPECT_THROW(transpose(reshape(leaked, {1, 2})), CaptureError);
  auto other = jit([&](const Tensor& x) { return x + leaked; });
  EXPECT_THAT(message_of<CaptureError>([&] { other(f32({1, 2}, {2})); }), HasSubstr("add"));
  auto returned = jit([&](const Tensor&) { return leaked; });
  EXPECT_THROW(returned(f32({1, 2}, {2})), CaptureError);
  EXPECT_THAT(to_string(leaked), HasSubstr("traced"));
}

TEST(Capture, ATensorOfOneCaptureIsNoTensorOfTheNext) {
  Tensor leaked;
  auto function = jit([&](const Tensor& x) {
    const Tensor previous = leaked;
    leaked = x + 1;
    return previous.defined() ? previous : leaked;
  });
  EXPECT_NO_THROW(function(f32({1}, {1})));
  EXPECT_THROW(function(f32({1, 2}, {2})), CaptureError);
}

TEST(Capture, UndefinedInputsAreErrorsThatNameTheOp) {
  auto function = jit([](const Tensor& x) { return neg(Tensor()) + x; });
  EXPECT_THAT(message_of<Error>([&] { function(f32({1}, {1})); }), AllOf(HasSubstr("neg"), HasSubstr("undefined")));
  auto nothing = jit([](const Tensor&) { return Tensor(); });
  EXPECT_THAT(message_of<Error>([&] { nothing(f32({1}, {1})); }), AllOf(HasSubstr("return"), HasSubstr("undefined")));
  auto identity = jit([](const Tensor& x) { return x; }, {.name = "identity"});
  EXPECT_THAT(message_of<Error>([&] { identity(Tensor()); }),
              AllOf(HasSubstr("identity"), HasSubstr("argument 0 is undefined")));
}

TEST(Capture, AVariableCannotStartFromATracedTensor) {
  auto function = jit([](const Tensor& x) { return Variable(x, "scratch").value(); });
  EXPECT_THAT(message_of<CaptureError>([&] { function(f32({1}, {1})); }), HasSubstr("'scratch'"));
}

TEST(Capture, TensorsMadeByHostCodeBecomeCapturedInputs) {
  auto function = jit(
      [](const Tensor& x) {
        return x + f32({10, 20}, {2});
      },
      {.pipeline = passes::PipelineOptions::none()});
  EXPECT_THAT(function(f32({1, 2}, {2})).to_vector<float>(), ElementsAre(11, 22));
  const Graph& graph = *function.compiled()->graph();
  ASSERT_EQ(graph.inputs.size(), 2U);
  EXPECT_EQ(graph.inputs[1].kind, InputKind::captured);
  EXPECT_TRUE(graph.constants.empty());
}

TEST(Capture, ATensorThatIsUsedTwiceIsCapturedOnce) {
  const Tensor shared = f32({1, 2}, {2});
  auto function = jit([&](const Tensor& x) { return x * shared + shared; });
  function(f32({1, 1}, {2}));
  EXPECT_EQ(function.compiled()->graph()->inputs.size(), 2U);
}

TEST(Capture, ReplaySeesWhatACapturedTensorHoldsNow) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    SCOPED_TRACE(variant.name);
    Tensor table = f32({1, 2}, {2});
    auto function = jit([&](const Tensor& x) { return x + table * 2; }, {.pipeline = variant.pipeline});
    EXPECT_THAT(function(f32({0, 0}, {2})).to_vector<float>(), ElementsAre(2, 4));
    table.mutable_data<float>()[0] = 100;
    EXPECT_THAT(function(f32({0, 0}, {2})).to_vector<float>(), ElementsAre(200, 4));
    EXPECT_EQ(function.compiled()->ledger().size(), 1U);
  }
}

TEST(Capture, StridedCapturedTensorsAreReadByTheirStrides) {
  const Tensor matrix = diptych::testing::ramp({2, 3});
  const Tensor column = slice(matrix, 1, 1, 2);
  auto function = jit([&](const Tensor& x) { return x + transpose(matrix) * transpose(column); });
  const Tensor x = zeros({3, 2});
  EXPECT_THAT(function(x).to_vector<float>(), ElementsAre(2, 20, 4, 25, 6, 30));
}

TEST(Capture, ConstantsAreFoldedAndCapturedTensorsAreNot) {
  const Tensor captured = f32({3, 4}, {2});
  auto function = jit([&](const Tensor& x) { return x + square(full({2}, 0.5)) + square(captured); });
  EXPECT_THAT(function(f32({0, 0}, {2})).to_vector<float>(), ElementsAre(9.25F, 16.25F));
  const Graph& graph = *function.compiled()->graph();
  ASSERT_EQ(graph.constants.size(), 1U);
  EXPECT_THAT(graph.constants[0].second.to_vector<float>(), ElementsAre(0.25F, 0.25F));
  EXPECT_EQ(graph.nodes.size(), 3U) << print(graph);
}

TEST(Capture, NodesKnowTheirModuleScopeLineAndSourceOp) {
  std::uint32_t line = 0;
  auto function = jit(
      [&](const Tensor& x) {
        const ModuleScope outer("net");
        Tensor y;
        {
          const ModuleScope inner("0");
          line = __builtin_LINE() + 1;
          y = exp(x);
        }
        y = neg(y);
        const ModuleScope last("head");
        return y + x;
      },
      {.pipeline = passes::PipelineOptions::none()});
  function(f32({1}, {1}));
  const auto& nodes = function.compiled()->graph()->nodes;
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_STREQ(nodes[0].provenance.scope, "net.0");
  EXPECT_STREQ(nodes[1].provenance.scope, "net");
  EXPECT_STREQ(nodes[2].provenance.scope, "net.head");
  EXPECT_THAT(std::string(nodes[0].provenance.where.file), HasSubstr("capture_test.cpp"));
  EXPECT_EQ(nodes[0].provenance.where.line, line);
  EXPECT_EQ(nodes[2].provenance.where.line, line + 4);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(nodes[i].provenance.source_ops, ElementsAre(i));
  }
}

TEST(Capture, ScopesCostNothingInEager) {
  const ModuleScope scope("eager");
  auto function = jit([](const Tensor& x) { return exp(x); });
  function(f32({1}, {1}));
  EXPECT_STREQ(function.compiled()->graph()->nodes[0].provenance.scope, "");
}

TEST(Capture, ErrorsOfOpsKeepTheirTypeAndLine) {
  auto function = jit([](const Tensor& x) { return matmul(x, x); });
  EXPECT_THAT(message_of<ShapeError>([&] {
                function(diptych::testing::ramp({2, 3}));
              }),
              AllOf(HasSubstr("matmul"), HasSubstr("capture_test.cpp:")));
}

}  // namespace
}  // namespace diptych::graph
