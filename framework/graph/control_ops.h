#pragma once

#include "framework/graph/ir.h"

/// The nodes of control flow. Their regions are graphs; outer values that a region reads are inputs of the node.
///
///   outputs = cond(predicate, inputs...)                     regions: then, else: inputs -> outputs
///   carries..., history..., count = while_loop(carries..., closed...)
///                                                            regions: condition: carries, closed -> bool[]
///                                                                     body: carries, closed -> carries
///   carries..., ys... = scan(count, carries..., xs..., closed...)
///                                                            region: carries, rows of xs, closed -> carries, rows of
///                                                            ys
///
/// `history` and `count` exist if a while_loop records, `count` if a scan is bounded.
namespace diptych::graph {

struct WhileAttributes {
  std::int64_t carries = 0;
  std::int64_t limit = 0;  ///< throws after this many iterations; 0: no limit
  bool record = false;     ///< outputs the carries before each iteration as rows of [limit, ...], and the count
  static constexpr auto fields() {
    return std::tuple(field("carries", &WhileAttributes::carries), field("limit", &WhileAttributes::limit),
                      field("record", &WhileAttributes::record));
  }
};

struct ScanAttributes {
  std::int64_t carries = 0;
  std::int64_t scanned = 0;  ///< number of inputs that are read row by row
  std::int64_t length = 0;
  bool reverse = false;  ///< from the last row to the first
  bool bounded = false;  ///< visits only the first `count` rows, an i64 input at the front; later rows of ys are zeros
  static constexpr auto fields() {
    return std::tuple(field("carries", &ScanAttributes::carries), field("scanned", &ScanAttributes::scanned),
                      field("length", &ScanAttributes::length), field("reverse", &ScanAttributes::reverse),
                      field("bounded", &ScanAttributes::bounded));
  }
};

const OpDef& cond_op();
const OpDef& while_op();
const OpDef& scan_op();
/// Null if there is none: control flow is not part of the registry of ops.
const OpDef* find_control_op(std::string_view name);

bool has_iteration_limit(const Node& node);

/// "f32[4,2]" -> "f32[2]": the type of a row of a scanned tensor; and the reverse.
TensorType row_type(const TensorType& type);
TensorType rows_type(std::int64_t length, const TensorType& row);

/// [first, end) of the inputs that are dense whatever the strides of the user's tensors: those that are carried or read
/// row by row.
std::pair<std::size_t, std::size_t> dense_inputs(const Node& node);

/// The types of a control-flow node's outputs. Throws Error if inputs and regions don't fit each other.
std::vector<TensorType> control_output_types(const Node& node, std::span<const TensorType* const> inputs);

}  // namespace diptych::graph
