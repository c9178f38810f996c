#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/io/onnx/model.h"

namespace diptych::onnx {

/// A function that a model defines itself (FunctionProto [onnx/onnx, docs/IR.md "Functions"]).
struct Function {
  std::string domain;
  std::string name;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<Node> nodes;
  std::map<std::string, AttributeValue> defaults;  ///< of attributes that a call may leave out
  std::map<std::string, std::int64_t> opsets;      ///< of its nodes, by domain
};

/// `graph`, and the bodies in it, with the nodes of these functions ("domain::name") in place of each call. Throws
/// Error for functions that call themselves, Unsupported for more nodes than a model may have.
Graph inlined(Graph graph, const std::map<std::string, Function>& functions);

}  // namespace diptych::onnx
