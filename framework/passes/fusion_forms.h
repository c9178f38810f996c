#pragma once

#include <optional>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/rewriter.h"
#include "framework/passes/pass.h"

/// What the passes that fuse know of each node by itself.
namespace diptych::passes {

/// Of a byte that is read or written in a cache behind the first.
inline constexpr double kNanosecondsOfByte = 0.0075;

/// A plane of fewer elements is a short one.
inline constexpr std::int64_t kShortPlane = 32;

enum class FusedKind : std::uint8_t {
  tiles,     ///< of elements and rows
  epilogues  ///< of contractions with what is elementwise behind them
};

struct FusionForm {
  std::optional<Refusal> refusal;  ///< it can't be a part of anything
  bool is_view = false;
  bool is_contraction = false;  ///< others may process its results as it finishes them; it comes first
  bool is_turned = false;       ///< it reads a transpose: not among rows
  bool repeats = false;         ///< it repeats a value in short rows: among channels alone
  bool is_small = false;        ///< nothing to gain, except among rows
  RowLayout rows;
  double lost = 0;  ///< if it doesn't pay: nanoseconds
};

/// Of each node.
std::vector<FusionForm> forms_of(const graph::Graph& graph, const graph::Users& users, FusedKind kind,
                                 const PassContext& context);

/// The bytes of a node's largest tensor.
std::size_t largest_of(const graph::Graph& graph, const graph::Node& node);
/// Whether the kernel of a contraction finishes rows, or planes, in parts that are long enough to read more tensors.
bool has_whole_rows(const graph::Graph& graph, const graph::Node& contraction);

}  // namespace diptych::passes
