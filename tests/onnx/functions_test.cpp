// Functions that a model defines itself: what they stand for, inlined; and -1 as a length.

#include <onnx/onnx_pb.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/import.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::both;
using diptych::testing::doubles;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace pb = ::onnx;

template <class Proto>
pb::NodeProto* add_call(Proto* to, const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& domain = "") {
  pb::NodeProto* node = to->add_node();
  node->set_op_type(op);
  node->set_domain(domain);
  for (const std::string& input : inputs) {
    node->add_input(input);
  }
  for (const std::string& output : outputs) {
    node->add_output(output);
  }
  return node;
}

pb::AttributeProto real_attribute(const std::string& name, float value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto_AttributeType_FLOAT);
  attribute.set_f(value);
  return attribute;
}

void refer(pb::NodeProto* node, const std::string& name, const std::string& to) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(pb::AttributeProto_AttributeType_FLOAT);
  attribute->set_ref_attr_name(to);
}

pb::FunctionProto* add_function(pb::ModelProto& model, const std::string& name, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs, std::int64_t opset = 17) {
  pb::FunctionProto* function = model.add_functions();
  function->set_domain("own");
  function->set_name(name);
  for (const std::string& input : inputs) {
    function->add_input(input);
  }
  for (const std::string& output : outputs) {
    function->add_output(output);
  }
  auto* import = function->add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  return function;
}

/// x[n] -> y
pb::ModelProto empty_model() {
  pb::ModelProto model;
  model.set_ir_version(8);
  for (const auto& [domain, version] : {std::pair("", 17), std::pair("own", 1)}) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  auto* input = model.mutable_graph()->add_input();
  input->set_name("x");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(pb::TensorProto_DataType_FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(-1);
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

Model parsed(const pb::ModelProto& model) { return parse_model(model.SerializeAsString(), "model.onnx", "."); }

std::vector<Tensor> called(const pb::ModelProto& model, const Tensor& x) {
  ImportedModel imported(std::make_shared<const Model>(parsed(model)));
  return both(imported, {x});
}

const Tensor& numbers() {
  static const Tensor x = Tensor::from({-2.0F, 0.5F, 3.0F}, {3});
  return x;
}

TEST(ModelFunctions, ALengthOfMinusOneIsDynamic) {
  pb::ModelProto model = empty_model();
  add_call(model.mutable_graph(), "Neg", {"x"}, {"y"});
  EXPECT_EQ(std::get<std::string>(parsed(model).graph->inputs[0].shape[0]), "");
  EXPECT_THAT(doubles(called(model, numbers())[0]), ElementsAre(2, -0.5, -3));
  EXPECT_THAT(doubles(called(model, full({1}, 2))[0]), ElementsAre(-2));
}

TEST(ModelFunctions, AreInlinedWithTheirAttributesAndOpset) {
  pb::ModelProto model = empty_model();
  // slope(v) = LeakyRelu(v) with the caller's slope; twice(v) = slope(v) + slope(v), which calls it by default.
  pb::FunctionProto* slope = add_function(model, "slope", {"v"}, {"w"});
  slope->add_attribute("steep");
  refer(add_call(slope, "LeakyRelu", {"v"}, {"w"}), "alpha", "steep");
  pb::FunctionProto* twice = add_function(model, "twice", {"v", "unused"}, {"w", "spare"}, 13);
  twice->add_attribute("a");
  refer(add_call(twice, "slope", {"v"}, {"part"}, "own"), "steep", "a");
  add_call(twice, "Add", {"part", "part"}, {"w"});
  add_call(twice, "Neg", {"w"}, {"spare"});
  *add_call(model.mutable_graph(), "twice", {"x"}, {"a"}, "own")->add_attribute() = real_attribute("a", 0.25F);
  add_call(model.mutable_graph(), "twice", {"a"}, {"y"}, "own");  // alpha's own default, 0.01
  const std::shared_ptr<const Graph> graph = parsed(model).graph;
  ASSERT_EQ(graph->nodes.size(), 6U);
  EXPECT_EQ(graph->nodes[0].op, "LeakyRelu");
  EXPECT_EQ(graph->nodes[0].opset, 17);
  EXPECT_EQ(graph->nodes[1].opset, 13);
  EXPECT_THAT(graph->nodes[0].name, AllOf(HasSubstr("twice"), HasSubstr("slope")));
  EXPECT_THAT(doubles(called(model, numbers())[0]), ElementsAre(-1 * 2 * 0.01F, 2, 12));
}

TEST(ModelFunctions, DefaultsOfAttributesAreThoseOfTheFunction) {
  pb::ModelProto model = empty_model();
  pb::FunctionProto* slope = add_function(model, "slope", {"v"}, {"w"});
  refer(add_call(slope, "LeakyRelu", {"v"}, {"w"}), "alpha", "steep");
  // Field 11, attribute_proto, which older protobuf definitions don't know.
  const std::string attribute = real_attribute("steep", 0.5F).SerializeAsString();
  slope->mutable_unknown_fields()->AddLengthDelimited(11)->assign(attribute);
  add_call(model.mutable_graph(), "slope", {"x"}, {"y"}, "own");
  EXPECT_THAT(doubles(called(model, numbers())[0]), ElementsAre(-1, 0.5, 3));
}

TEST(ModelFunctions, PassOnTheirInputsAndReachIntoBodies) {
  pb::ModelProto model = empty_model();
  pb::FunctionProto* same = add_function(model, "same", {"v", "w"}, {"v", "both", "v"});
  add_call(same, "Add", {"v", "w"}, {"both"});
  // A function called in a branch, on a value from outside of it.
  pb::FunctionProto* chosen = add_function(model, "chosen", {"v"}, {"w"});
  add_call(chosen, "ReduceSum", {"v"}, {"total"})->add_attribute();
  *chosen->mutable_node(0)->mutable_attribute(0) = real_attribute("keepdims", 0);
  chosen->mutable_node(0)->mutable_attribute(0)->set_type(pb::AttributeProto_AttributeType_INT);
  add_call(chosen, "Cast", {"total"}, {"condition"})->add_attribute();
  auto* to = chosen->mutable_node(1)->mutable_attribute(0);
  to->set_name("to");
  to->set_type(pb::AttributeProto_AttributeType_INT);
  to->set_i(pb::TensorProto_DataType_BOOL);
  pb::NodeProto* branch = add_call(chosen, "If", {"condition"}, {"w"});
  for (const char* side : {"then_branch", "else_branch"}) {
    auto* attribute = branch->add_attribute();
    attribute->set_name(side);
    attribute->set_type(pb::AttributeProto_AttributeType_GRAPH);
    auto* body = attribute->mutable_g();
    body->set_name(side);
    add_call(body, "same", {"v", "v"}, {"", "inner", ""}, "own");
    add_call(body, side == std::string("then_branch") ? "Neg" : "Identity", {"inner"}, {"result"});
    body->add_output()->set_name("result");
  }
  add_call(model.mutable_graph(), "same", {"x", "x"}, {"first", "second", "third"}, "own");
  add_call(model.mutable_graph(), "Sum", {"first", "second", "third"}, {"all"});  // 4 x
  add_call(model.mutable_graph(), "chosen", {"all"}, {"y"}, "own");               // - 2 * 4 x
  EXPECT_THAT(doubles(called(model, numbers())[0]), ElementsAre(16, -4, -24));
}

template <class Fn>
std::string problem_with(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(ModelFunctions, WhatHasNoEndIsRefused) {
  pb::ModelProto endless = empty_model();
  add_call(add_function(endless, "f", {"v"}, {"w"}), "g", {"v"}, {"w"}, "own");
  add_call(add_function(endless, "g", {"v"}, {"w"}), "f", {"v"}, {"w"}, "own");
  add_call(endless.mutable_graph(), "f", {"x"}, {"y"}, "own");
  EXPECT_THAT(problem_with([&] { parsed(endless); }), HasSubstr("calls itself"));

  pb::ModelProto many = empty_model();
  for (int i = 0; i < 60; ++i) {  // 2^60 calls
    pb::FunctionProto* function = add_function(many, "f" + std::to_string(i), {"v"}, {"w"});
    add_call(function, "f" + std::to_string(i + 1), {"v"}, {"u"}, "own");
    add_call(function, "f" + std::to_string(i + 1), {"u"}, {"w"}, "own");
  }
  add_call(add_function(many, "f60", {"v"}, {"w"}), "Neg", {"v"}, {"w"});
  add_call(many.mutable_graph(), "f0", {"x"}, {"y"}, "own");
  EXPECT_THAT(problem_with([&] { parsed(many); }), HasSubstr("more than"));

  pb::ModelProto wrong = empty_model();
  add_call(add_function(wrong, "f", {"v"}, {"w"}), "Neg", {"v"}, {"w"});
  add_call(wrong.mutable_graph(), "f", {"x", "x"}, {"y"}, "own");
  EXPECT_THAT(problem_with([&] { parsed(wrong); }), HasSubstr("2 inputs"));

  pb::ModelProto outside = empty_model();
  refer(add_call(outside.mutable_graph(), "LeakyRelu", {"x"}, {"y"}), "alpha", "steep");
  EXPECT_THAT(problem_with([&] { ImportedModel(std::make_shared<const Model>(parsed(outside))); }),
              HasSubstr("attribute \"steep\" of a function"));
}

}  // namespace
}  // namespace diptych::onnx
