#include "framework/graph/fused_op.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/codegen/tile_program.h"
#include "framework/dispatch/op.h"

namespace diptych::graph {
namespace {

const OpDef kFused{.name = "fused",
                   .doc = "Elementwise ops as one kernel",
                   .inputs = 1,
                   .kind = OpKind::fused,
                   .infer =
                       [](const InferCall& call, TensorType& /*output*/) {
                         throw InternalError(fmt::format("{}: its types follow from its region", call.op.name));
                       },
                   .kernel = nullptr,
                   .samples = nullptr,
                   .family = "elementwise"};

}  // namespace

const OpDef& fused_op() { return kFused; }

bool is_fusable(const Graph& graph, const Node& node) {
  return node.op->elementwise() && !node.op->effect && !node.op->can_fail && !node.inputs.empty() &&
         node.inputs.size() <= kMaxElementwiseInputs &&
         node.op->loop(graph.input_types(node), graph.types[node.output()]) != nullptr;
}

std::vector<TensorType> fused_output_types(const Node& node, std::span<const TensorType* const> inputs) {
  const auto require = [&](bool condition, std::string_view what) {
    if (!condition) {
      throw Error(fmt::format("fused: {}", what), node.provenance.where, "");
    }
  };
  require(node.regions.size() == 1, "has another number of regions");
  const Graph& region = *node.regions[0];
  using Program = codegen::TileProgram;
  require(inputs.size() <= Program::kMostInputs && region.nodes.size() <= Program::kMostSteps, "is too large");
  require(region.constants.empty(), "has constants in its region");
  require(region.inputs.size() == inputs.size(), "its region takes another number of inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(region.types[region.inputs[i].value] == *inputs[i], "an input of its region has another type");
  }
  require(!region.nodes.empty() && !region.outputs.empty(), "gives nothing");
  std::vector<bool> is_result(region.types.size(), false);
  for (const Node& inner : region.nodes) {
    require(is_fusable(region, inner), fmt::format("{} can't be in it", inner.op->name));
    require(region.types[inner.output()].shape == region.types[region.outputs[0]].shape,
            "results in its region differ in shape");
    is_result[inner.output()] = true;
  }
  std::vector<TensorType> types;
  for (const ValueId output : region.outputs) {
    require(is_result[output], "an output is no result of its region, or given twice");
    is_result[output] = false;
    types.push_back(region.types[output]);
  }
  return types;
}

bool is_read_before(const Graph& region, std::size_t input, std::size_t output) {
  for (const Node& node : region.nodes) {
    if (node.output() == region.outputs[output]) {
      return std::none_of(&node + 1, region.nodes.data() + region.nodes.size(), [&](const Node& later) {
        return std::find(later.inputs.begin(), later.inputs.end(), region.inputs[input].value) != later.inputs.end();
      });
    }
  }
  return false;
}

}  // namespace diptych::graph
