#include "framework/graph/control_ops.h"

#include <fmt/format.h>

#include "framework/dispatch/op.h"

namespace diptych::graph {
namespace {

constexpr Infer kNoInference = [](const InferCall& call, TensorType& /*output*/) {
  throw InternalError(fmt::format("{} is control flow: its types follow from its regions", call.op.name));
};

const OpDef kCond{.name = "cond",
                  .doc = "One of two regions, chosen by a bool",
                  .inputs = 1,
                  .kind = OpKind::control,
                  .infer = kNoInference,
                  .kernel = nullptr,
                  .samples = nullptr,
                  .family = "control"};
const OpDef kWhile{.name = "while_loop",
                   .doc = "A region repeated while another one gives true",
                   .inputs = 1,
                   .kind = OpKind::control,
                   .attributes = &attribute_type<WhileAttributes>,
                   .infer = kNoInference,
                   .kernel = nullptr,
                   .samples = nullptr,
                   .family = "control"};
const OpDef kScan{.name = "scan",
                  .doc = "A region for each row of some inputs, with values carried along",
                  .inputs = 1,
                  .kind = OpKind::control,
                  .attributes = &attribute_type<ScanAttributes>,
                  .infer = kNoInference,
                  .kernel = nullptr,
                  .samples = nullptr,
                  .family = "control"};

const TensorType kPredicate{DType::boolean, {}};
const TensorType kCount{DType::int64, {}};

/// Checks one node, all of whose contents may be hostile (graph texts).
class Checker {
 public:
  Checker(const Node& node, std::span<const TensorType* const> inputs) : node_(node), inputs_(inputs) {}

  std::vector<TensorType> cond() const {
    regions(2);
    at_least(1);
    same(*inputs_[0], kPredicate, "the predicate");
    for (const auto& region : node_.regions) {
      takes(*region, inputs_.subspan(1));
    }
    const std::vector<TensorType> then = results(*node_.regions[0]);
    const std::vector<TensorType> otherwise = results(*node_.regions[1]);
    require(then.size() == otherwise.size(), "the branches give different numbers of results");
    for (std::size_t i = 0; i < then.size(); ++i) {
      same(otherwise[i], then[i], "a result of the second branch");
    }
    return then;
  }

  std::vector<TensorType> while_loop() const {
    const auto& attributes = node_.attributes.as<WhileAttributes>();
    regions(2);
    require(attributes.limit >= 0 && attributes.limit <= kMostRows, "the limit is out of range");
    require(!attributes.record || attributes.limit > 0, "what records has a limit");
    const std::size_t carries = count(attributes.carries, inputs_.size());
    for (const auto& region : node_.regions) {
      takes(*region, inputs_);
    }
    const std::vector<TensorType> condition = results(*node_.regions[0]);
    require(condition.size() == 1 && condition[0] == kPredicate, "the condition gives no bool[]");
    std::vector<TensorType> types = results(*node_.regions[1]);
    require(types.size() == carries, "the body gives another number of carries");
    for (std::size_t i = 0; i < carries; ++i) {
      same(types[i], *inputs_[i], "a carry behind the body");
    }
    if (attributes.record) {
      for (std::size_t i = 0; i < carries; ++i) {
        types.push_back(rows(attributes.limit, types[i]));
      }
      types.push_back(kCount);
    }
    return types;
  }

  std::vector<TensorType> scan() const {
    const auto& attributes = node_.attributes.as<ScanAttributes>();
    regions(1);
    require(attributes.length >= 0 && attributes.length <= kMostRows, "the length is out of range");
    auto inputs = inputs_;
    if (attributes.bounded) {
      at_least(1);
      same(*inputs_[0], kCount, "the count");
      inputs = inputs.subspan(1);
    }
    const std::size_t carries = count(attributes.carries, inputs.size());
    const std::size_t scanned = count(attributes.scanned, inputs.size() - carries);
    std::vector<TensorType> row_types;
    for (std::size_t i = carries; i < carries + scanned; ++i) {
      require(inputs[i]->shape.rank() > 0 && inputs[i]->shape[0] == attributes.length,
              "a scanned input doesn't have `length` rows");
      row_types.push_back(row_type(*inputs[i]));
    }
    std::vector<const TensorType*> expected(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < scanned; ++i) {
      expected[carries + i] = &row_types[i];
    }
    takes(*node_.regions[0], expected);
    std::vector<TensorType> types = results(*node_.regions[0]);
    require(types.size() >= carries, "the body gives too few carries");
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (i < carries) {
        same(types[i], *inputs[i], "a carry behind the body");
      } else {
        types[i] = rows(attributes.length, types[i]);
      }
    }
    return types;
  }

 private:
  static constexpr std::int64_t kMostRows = std::int64_t{1} << 32;

  void require(bool condition, std::string_view what) const {
    if (!condition) {
      throw Error(fmt::format("{}: {}", node_.op->name, what), node_.provenance.where, "");
    }
  }
  void same(const TensorType& type, const TensorType& expected, std::string_view what) const {
    require(type == expected, fmt::format("{} is {}, not {}", what, to_string(type), to_string(expected)));
  }
  void regions(std::size_t wanted) const { require(node_.regions.size() == wanted, "has another number of regions"); }
  void at_least(std::size_t wanted) const { require(inputs_.size() >= wanted, "has too few inputs"); }
  std::size_t count(std::int64_t number, std::size_t most) const {
    require(number >= 0 && static_cast<std::uint64_t>(number) <= most, "has too few inputs");
    return static_cast<std::size_t>(number);
  }
  void takes(const Graph& region, std::span<const TensorType* const> types) const {
    require(region.inputs.size() == types.size(), "a region takes another number of inputs");
    for (std::size_t i = 0; i < types.size(); ++i) {
      same(region.types[region.inputs[i].value], *types[i], "an input of a region");
    }
  }
  std::vector<TensorType> results(const Graph& region) const {
    std::vector<TensorType> types;
    for (ValueId output : region.outputs) {
      types.push_back(region.types[output]);
    }
    require(!types.empty(), "a region gives nothing");
    return types;
  }
  TensorType rows(std::int64_t length, const TensorType& row) const {
    require(row.shape.rank() < kMaxRank, "a stacked result would have too many axes");
    std::int64_t elements = 1;
    for (std::int64_t axis : row.shape) {
      elements *= std::max<std::int64_t>(axis, 1);
    }
    require(length <= (std::int64_t{1} << 40) / elements, "a stacked result would be too large");
    return rows_type(length, row);
  }

  const Node& node_;
  std::span<const TensorType* const> inputs_;
};

}  // namespace

const OpDef& cond_op() { return kCond; }
const OpDef& while_op() { return kWhile; }
const OpDef& scan_op() { return kScan; }

const OpDef* find_control_op(std::string_view name) {
  for (const OpDef* op : {&kCond, &kWhile, &kScan}) {
    if (name == op->name) {
      return op;
    }
  }
  return nullptr;
}

bool has_iteration_limit(const Node& node) {
  return node.op == &kWhile && node.attributes.as<WhileAttributes>().limit > 0;
}

TensorType row_type(const TensorType& type) {
  return {type.dtype, Shape(std::span(type.shape.begin() + 1, type.shape.end()))};
}

TensorType rows_type(std::int64_t length, const TensorType& row) {
  TensorType type{row.dtype, {length}};
  for (std::int64_t axis : row.shape) {
    type.shape.push_back(axis);
  }
  return type;
}

std::pair<std::size_t, std::size_t> dense_inputs(const Node& node) {
  if (node.op == &kWhile) {
    return {0, static_cast<std::size_t>(node.attributes.as<WhileAttributes>().carries)};
  }
  if (node.op == &kScan) {
    const auto& scan = node.attributes.as<ScanAttributes>();
    return {0, static_cast<std::size_t>((scan.bounded ? 1 : 0) + scan.carries + scan.scanned)};
  }
  return {0, 0};
}

std::vector<TensorType> control_output_types(const Node& node, std::span<const TensorType* const> inputs) {
  const Checker checker(node, inputs);
  return node.op == &kCond ? checker.cond() : node.op == &kWhile ? checker.while_loop() : checker.scan();
}

}  // namespace diptych::graph
