// Kernels that refuse elements: with the op's line and its modules, and the same words in eager, pipelined and graph.

#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/runtime/pipeline.h"
#include "tests/graph/variants.h"
#include "tests/support/op_samples.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using testing::f32;
using ::testing::HasSubstr;
using testing::i64;
using testing::message_of;
using testing::OpCase;
using Values = std::vector<Tensor>;

std::string at_line(std::uint32_t line) { return "element_errors_test.cpp:" + std::to_string(line); }

/// The message of a call, once by itself and once as a graph inside a module.
std::string in_eager(const OpDef& op, const AttributeValue& attributes, const Values& inputs, Location where) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) {
    pointers.push_back(&input);
  }
  return message_of<Error>([&] { apply(op, pointers, attributes.get(), where); });
}

std::string in_graph(const OpDef& op, const AttributeValue& attributes, const Values& inputs, Location where) {
  graph::JitFunction compiled(
      [&](std::span<const Tensor> given, std::shared_ptr<void>&) {
        const graph::ModuleScope outer("net");
        const graph::ModuleScope inner("part");
        std::vector<const Tensor*> pointers;
        for (const Tensor& input : given) {
          pointers.push_back(&input);
        }
        return Values{apply(op, pointers, attributes.get(), where)};
      },
      {.name = "failing"});
  return message_of<Error>([&] { compiled.call(inputs, Location::current()); });
}

/// The inputs of a sample, with those of one kind filled with elements that hardly any op takes.
Values spoiled(const Values& inputs, bool (*is_kind)(DType), double value) {
  Values result;
  for (const Tensor& input : inputs) {
    result.push_back(is_kind(input.dtype()) ? full(input.shape(), value, input.dtype()) : input);
  }
  return result;
}

bool is_index(DType dtype) { return dtype == DType::int64; }

// Every op of the registry that may fail, whatever it is.
TEST(ElementErrors, AreOfOneFormInBothModes) {
  const Location where{"model.cpp", 12};
  std::set<std::string> unseen;
  for (const OpCase& c : testing::all_op_cases()) {
    if (c.op->can_fail) {
      unseen.insert(c.op->name);
    }
  }
  EXPECT_GE(unseen.size(), 10U);
  for (const OpCase& c : testing::all_op_cases()) {
    const Values inputs = testing::make_inputs(c.sample);
    if (!c.op->can_fail || !unseen.contains(c.op->name)) {
      continue;
    }
    for (const auto& [is_kind, value] :
         {std::pair<bool (*)(DType), double>{is_integral, 0}, {is_index, 1 << 20}, {is_floating, 2}}) {
      const Values wrong = spoiled(inputs, is_kind, value);
      const std::string eager = in_eager(*c.op, c.sample.attributes, wrong, where);
      if (eager == "no error") {
        continue;
      }
      SCOPED_TRACE(eager);
      unseen.erase(c.op->name);
      EXPECT_THAT(eager, AllOf(HasSubstr(": "), HasSubstr(", at model.cpp:12; ")));
      std::string with_module = eager;
      with_module.insert(eager.find("model.cpp:12") + 12, " in net.part");
      EXPECT_EQ(in_graph(*c.op, c.sample.attributes, wrong, where), with_module);
    }
  }
  EXPECT_THAT(unseen, ::testing::IsEmpty()) << "no element was refused";
}

/// Rows of a table at indices, divided: each of its ops can fail.
struct Lookup : nn::Module {
  Tensor forward(const Tensor& indices) override {
    line = __builtin_LINE() + 1;
    return index_select(f32({1, 2, 3}, {3}), 0, indices);
  }
  std::uint32_t line = 0;
};
struct Head : nn::Module {
  Tensor forward(const Tensor& indices) override { return (*lookup)(indices); }
  std::shared_ptr<Lookup> lookup = add("lookup", std::make_shared<Lookup>());
};
struct Net : nn::Module {
  Tensor forward(const Tensor& indices) override { return (*head)(indices)*2; }
  std::shared_ptr<Head> head = add("head", std::make_shared<Head>());
};

TEST(ElementErrors, NameTheModulesFromTheOutsideIn) {
  Net net;
  const Tensor wrong = i64({0, 3}, {2});
  auto graph = jit([&](const Tensor& x) { return net(x); });
  const std::string eager = message_of<Error>([&] { net(wrong); });
  EXPECT_EQ(eager, "index_select: index 3 at position 1 is outside [0, 3), at " +
                       std::string(Location::current().file) + ":" + std::to_string(net.head->lookup->line) +
                       " in head.lookup; check the indices, or make the axis longer");
  EXPECT_EQ(message_of<Error>([&] { graph(wrong); }), eager);
  net.head->lookup->register_forward_hook([](nn::ModuleBase&, std::span<const Tensor>, Tensor&) {});
  EXPECT_EQ(message_of<Error>([&] { net(wrong); }), eager) << "with hooks";
}

TEST(ElementErrors, NameTheirModuleInsideLoopsAndChecks) {
  struct Loop : nn::Module {
    Tensor forward(const Tensor& x) override {
      return while_loop([](const Tensor& y) { return greater(y, full_like(y, 0)); },
                        [](const Tensor& y) {
                          const Tensor finite = debug::check_finite(y, "y");
                          return finite - cast(quotient(i64({6}, {}), cast(finite, DType::int64) - 3), DType::float32);
                        },
                        x, {.max_iterations = 9});
    }
  };
  struct Outer : nn::Module {
    Tensor forward(const Tensor& x) override { return (*loop)(x); }
    std::shared_ptr<Loop> loop = add("loop", std::make_shared<Loop>());
  };
  Outer net;
  auto graph = jit([&](const Tensor& x) { return net(x); });
  for (const auto& [x, words] :
       {std::pair<float, const char*>{3, "quotient: an integer is divided by zero, at "},
        {100, "while_loop: the condition still holds after max_iterations = 9, at "},
        {std::numeric_limits<float>::infinity(), "check_finite: 'y' has inf at [] of f32[], at "}}) {
    const Tensor given = Tensor::scalar(x);
    const std::string eager = message_of<Error>([&] { net(given); });
    EXPECT_THAT(eager, AllOf(HasSubstr(words), HasSubstr("element_errors_test.cpp:"), HasSubstr(" in loop; ")));
    EXPECT_EQ(message_of<Error>([&] { graph(given); }), eager);
  }
}

TEST(ElementErrors, OfPipelinedOpsHaveTheirLine) {
  const PipelinedScope scope;
  const std::uint32_t line = __builtin_LINE() + 1;
  const Tensor broken = quotient(i64({1, 2}, {2}), i64({1, 0}, {2}));
  EXPECT_THAT(message_of<Error>([&] { broken.to_vector<std::int64_t>(); }),
              AllOf(HasSubstr("quotient: an integer is divided by zero, at "),
                    HasSubstr(at_line(line) + "; check the divisor"), HasSubstr("the op was pipelined")));
}

}  // namespace
}  // namespace diptych
