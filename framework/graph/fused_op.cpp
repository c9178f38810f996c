#include "framework/graph/fused_op.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/codegen/rows.h"
#include "framework/codegen/tile_program.h"
#include "framework/dispatch/op.h"
#include "framework/ops/shape_ops.h"

namespace diptych::graph {
namespace {

const OpDef kFused{.name = "fused",
                   .doc = "Ops of elements and rows as one kernel, or as several that are dispatched as one",
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

Rows rows_of(const Graph& graph, const Node& node) {
  return node.op->rows_of(graph.input_types(node), node.attributes.get(), graph.types[node.output()]);
}

RowLayout rows_of(const Graph& region) {
  for (const Node& node : region.nodes) {
    if (const RowLayout rows = rows_of(region, node).layout; rows.count > 0) {
      return rows;
    }
  }
  return {};
}

bool takes_epilogue(const Graph& graph, const Node& node) {
  const DType dtype = graph.types[node.output()].dtype;
  return node.op->epilogue_axes > 0 && (dtype == DType::float32 || dtype == DType::float64);
}

const Node* contraction_of(const Graph& region) {
  const bool begins = !region.nodes.empty() && takes_epilogue(region, region.nodes.front());
  return begins ? &region.nodes.front() : nullptr;
}

bool is_row_view(const Graph& graph, const Node& node, const RowLayout& rows) {
  if (node.op != &op::reshape && node.op != &op::expand) {
    return false;
  }
  const Shape& from = graph.types[node.inputs[0]].shape;
  const Shape& to = graph.types[node.output()].shape;
  const auto narrow = codegen::width_in(rows, from);
  const auto wide = codegen::width_in(rows, to);
  if (!narrow || !wide) {
    return false;
  }
  if (node.op == &op::expand) {
    return codegen::is_read_by_rows(rows, from, to);
  }
  return narrow == wide &&
         (!rows.by_channel() || narrow == 1 || (codegen::has_planes(rows, from) && codegen::has_planes(rows, to)));
}

const char* why_not_in_region(const Graph& graph, const Node& node, const RowLayout& rows, std::uint32_t inside) {
  if (node.op->effect || node.op->can_fail) {
    return "has an effect or can fail";
  }
  const TensorType& type = graph.types[node.output()];
  if (node.op->elementwise()) {
    if (node.inputs.empty() || node.inputs.size() > kMaxElementwiseInputs ||
        node.op->loop(graph.input_types(node), type) == nullptr) {
      return "has no loop";
    }
    if (rows.count == 0) {
      return nullptr;
    }
    const auto width = codegen::width_in(rows, type.shape);
    if (!width || (rows.by_channel() && width != 1 && !codegen::has_planes(rows, type.shape))) {
      return "has a result of other rows";
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (((inside >> i) & 1U) != 0 && !codegen::is_read_by_rows(rows, graph.types[node.inputs[i]].shape, type.shape)) {
        return "needs the whole of another's result";
      }
    }
    return nullptr;
  }
  if (is_row_view(graph, node, rows)) {
    return (inside & 1U) != 0 ? nullptr : "is a view of an input";
  }
  if (node.op->rows == nullptr || rows.count == 0) {
    return "is no op of elements or rows";
  }
  const Rows own = rows_of(graph, node);
  if (own.layout != rows || !codegen::width_in(rows, type.shape)) {
    return "has other rows";
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool by_rows = ((own.inputs >> i) & 1U) != 0;
    if (by_rows && !codegen::width_in(rows, graph.types[node.inputs[i]].shape)) {
      return "has other rows";
    }
    if (!by_rows && ((inside >> i) & 1U) != 0) {
      return "needs the whole of another's result";
    }
  }
  return nullptr;
}

std::vector<FusedPart> parts_of(std::span<const std::shared_ptr<const Graph>> regions) {
  std::vector<FusedPart> parts;
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const auto& region : regions) {
    parts.push_back({*region, inputs, outputs});
    inputs += region->inputs.size();
    outputs += region->outputs.size();
  }
  return parts;
}

namespace {

void require(bool condition, std::string_view what, Location where) {
  if (!condition) {
    throw Error(fmt::format("fused: {}", what), where, "");
  }
}

/// Those of a region. Throws Error if it isn't one of a fused node.
std::vector<TensorType> region_output_types(const Graph& region, Location where) {
  using Program = codegen::TileProgram;
  require(region.inputs.size() <= Program::kMostInputs && region.nodes.size() <= Program::kMostSteps, "is too large",
          where);
  require(region.constants.empty(), "has constants in its region", where);
  require(!region.nodes.empty() && !region.outputs.empty(), "gives nothing", where);
  const RowLayout rows = rows_of(region);
  const Node* const contraction = contraction_of(region);
  require(contraction == nullptr || region.nodes.size() > 1, "has nothing behind its contraction", where);
  require(contraction == nullptr || rows.count == 0, "a contraction and rows can't be in one region", where);
  std::vector<bool> is_result(region.types.size(), false);
  for (const Node& inner : region.nodes) {
    const char* const why =
        &inner == contraction
            ? nullptr
            : why_not_in_region(region, inner, rows, [&](ValueId value) { return bool(is_result[value]); });
    require(why == nullptr, fmt::format("{} can't be in it: it {}", inner.op->name, why == nullptr ? "" : why), where);
    require(rows.count > 0 || region.types[inner.output()].shape == region.types[region.outputs[0]].shape,
            "results in its region differ in shape", where);
    is_result[inner.output()] = true;
  }
  for (const Node& inner : region.nodes) {
    if (is_row_view(region, inner, rows)) {
      is_result[inner.output()] = false;
    }
  }
  std::vector<TensorType> types;
  for (const ValueId output : region.outputs) {
    require(is_result[output], "an output is no result of its region, or a view, or given twice", where);
    is_result[output] = false;
    types.push_back(region.types[output]);
  }
  return types;
}

}  // namespace

std::vector<TensorType> fused_output_types(const Node& node, std::span<const TensorType* const> inputs) {
  const Location where = node.provenance.where;
  require(!node.regions.empty(), "has no region", where);
  std::vector<TensorType> types;
  std::size_t taken = 0;
  for (const auto& region : node.regions) {
    require(region->inputs.size() <= inputs.size() - taken, "its region takes another number of inputs", where);
    for (const Input& input : region->inputs) {
      require(region->types[input.value] == *inputs[taken++], "an input of its region has another type", where);
    }
    require(node.regions.size() == 1 || contraction_of(*region) == nullptr,
            "has a contraction in one of several regions", where);
    const std::vector<TensorType> given = region_output_types(*region, where);
    types.insert(types.end(), given.begin(), given.end());
  }
  require(taken == inputs.size(), "its region takes another number of inputs", where);
  return types;
}

bool may_hold_contraction(const Graph& region, std::size_t output) {
  const ValueId product = contraction_of(region)->output();
  bool is_written = false;
  for (const Node& node : region.nodes) {
    if (is_written && std::find(node.inputs.begin(), node.inputs.end(), product) != node.inputs.end()) {
      return false;
    }
    is_written = is_written || node.output() == region.outputs[output];
  }
  return region.types[region.outputs[output]] == region.types[product];
}

bool may_overwrite(const Graph& region, std::size_t input, std::size_t output) {
  const ValueId value = region.inputs[input].value;
  if (const Node* const contraction = contraction_of(region);
      contraction != nullptr &&
      std::find(contraction->inputs.begin(), contraction->inputs.end(), value) != contraction->inputs.end()) {
    return false;
  }
  bool is_written = false;
  for (const Node& node : region.nodes) {
    const bool writes = node.output() == region.outputs[output];
    is_written = is_written || writes;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) {
        continue;
      }
      if (node.op->elementwise()) {
        // As a row or column for others it is read by many tiles.
        if ((is_written && !writes) || region.types[value].shape != region.types[node.output()].shape) {
          return false;
        }
      } else {
        if (is_written || ((rows_of(region, node).inputs >> i) & 1U) == 0) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace diptych::graph
