#include "framework/passes/fusion_forms.h"

#include <algorithm>

#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/shape_ops.h"

namespace diptych::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// A kernel has whole rows in the cache, several tensors of them.
constexpr std::size_t kMostRowBytes = std::size_t{64} << 10;
/// Of channels in the second cache.
constexpr std::size_t kMostChannelBytes = std::size_t{512} << 10;
/// What channels gain from (docs/fusion.md): each takes some calls. Ops that go over their tensors once by themselves,
/// from beyond the caches on, and if planes aren't short; a reduction of whole channels is read by broadcasting, which
/// takes longer apart.
constexpr std::int64_t kLeastElementsOfChannel = 512;
/// Threads share channels, not parts of them.
constexpr std::int64_t kFewestChannels = 8;
/// Planes of one element lie apart in their channel, and next to one another in memory.
constexpr std::int64_t kLeastPlane = 2;
constexpr std::size_t kLeastChannels = std::size_t{2} << 20;
constexpr std::size_t kLeastReducedChannels = std::size_t{128} << 10;
/// Parts of products with rows shorter than this take longer to walk than they save.
constexpr std::int64_t kLeastColumns = 64;
/// Rows of a product up to this length are finished whole.
constexpr std::int64_t kMostWholeColumns = 256;
/// Transposes are read in blocks, which pays for certain from this size of the results on (docs/fusion.md).
constexpr std::int64_t kLeastSide = 32;
constexpr std::size_t kLeastTransposed = std::size_t{2} << 20;
/// Parts of longer rows pay if what they save would come from memory.
constexpr std::size_t kPartsOfMemory = std::size_t{16} << 20;

/// The strides that each value will have at run time, where arguments are dense.
std::vector<Strides> likely_strides(const Graph& graph) {
  std::vector<Strides> strides(graph.types.size());
  for (ValueId value = 0; value < strides.size(); ++value) {
    strides[value] = contiguous_strides(graph.types[value].shape);
  }
  for (const Node& node : graph.nodes) {
    if (node.op->view != nullptr) {
      Layout layout;
      const ValueId input = node.inputs[0];
      if (node.op->view(graph.types[input], strides[input], graph.types[node.output()], node.attributes.get(),
                        layout)) {
        strides[node.output()] = layout.strides;
      }
    }
  }
  return strides;
}

/// Whether rows of the value are dense or one element: others would be gathered element by element for each tile.
bool has_rows(const Shape& shape, const Strides& strides) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1) {
      return strides[axis] == 1 || strides[axis] == 0;
    }
  }
  return true;
}

/// Whether the value is a matrix, or several, with its last two axes exchanged: it can be read in blocks.
bool is_turned(const Shape& shape, const Strides& strides) {
  const int rank = shape.rank();
  return rank >= 2 && strides[rank - 2] == 1 && shape[rank - 2] >= kLeastSide && shape[rank - 1] >= kLeastSide;
}

/// Whether the value is repeated for rows of the result that are short: a tile has many, and each is filled by itself.
bool repeats_in_short_rows(const Shape& value, const Shape& result) {
  constexpr std::int64_t kShort = 512;
  std::int64_t row = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int own = axis - (result.rank() - value.rank());
    const std::int64_t length = own >= 0 ? value[own] : 1;
    if (length == 1) {
      row *= result[axis];
    } else {
      return row > 1 && row < kShort;
    }
  }
  return false;
}

/// The elements of a row of a contraction's result.
std::int64_t columns_of(const Graph& graph, const Node& node) {
  const Shape& shape = graph.types[node.output()].shape;
  std::int64_t columns = 1;
  for (int axis = shape.rank() - node.op->epilogue_axes; axis < shape.rank(); ++axis) {
    columns *= shape[axis];
  }
  return columns;
}

/// Its parts have few elements a row, or stay in the cache until the next op reads them.
bool is_small_product(const Graph& graph, const Node& node, const PassContext& context) {
  const std::size_t least = has_whole_rows(graph, node) ? context.least_epilogue_bytes : kPartsOfMemory;
  return context.least_epilogue_bytes > 0 &&
         (columns_of(graph, node) < kLeastColumns || bytes_of(graph.types[node.output()]) < least);
}

class Forms {
 public:
  Forms(const Graph& graph, const graph::Users& users, FusedKind kind, const PassContext& context)
      : graph_(graph), users_(users), kind_(kind), context_(context), strides_(likely_strides(graph)) {}

  FusionForm of(const Node& node) const {
    FusionForm form;
    if (node.op->effect || node.op->can_fail) {
      form.refusal = Refusal::effect;
      return form;
    }
    if (node.outputs.size() != 1 || !node.regions.empty() ||
        (users_.count(node.output()) == 0 && !users_.is_result(node.output()))) {
      form.refusal = Refusal::kind;
      return form;
    }
    form.is_view = node.op == &op::reshape || node.op == &op::expand;
    if (form.is_view) {
      return form;
    }
    if (kind_ == FusedKind::epilogues && graph::takes_epilogue(graph_, node)) {
      form.is_contraction = true;
      form.is_small = is_small_product(graph_, node, context_);
      return form;
    }
    const std::size_t largest =
        node.op->elementwise() ? bytes_of(graph_.types[node.output()]) : largest_of(graph_, node);
    if (node.op->elementwise()) {
      if (graph::why_not_in_region(graph_, node, RowLayout{}, 0U) != nullptr) {
        form.refusal = Refusal::kind;
      } else if (!has_rows(node.inputs) && !(largest >= least_transposed() && reads_transposes(node.inputs))) {
        form.refusal = Refusal::layout;
      } else if (context_.least_fused_bytes > 0 &&
                 std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
                   return repeats_in_short_rows(graph_.types[input].shape, graph_.types[node.output()].shape);
                 })) {
        form.repeats = true;
        form.lost = static_cast<double>(largest) * kNanosecondsOfByte;
      }
    } else if (kind_ == FusedKind::epilogues) {
      form.refusal = Refusal::kind;
    } else {
      form.rows = graph::rows_of(graph_, node).layout;
      if (form.rows.count == 0 || graph::why_not_in_region(graph_, node, form.rows, 0U) != nullptr) {
        form.refusal = node.op->rows == nullptr ? Refusal::kind : Refusal::shape;
        form.rows = {};
        return form;
      }
      if (!has_rows(node.inputs)) {
        form.refusal = Refusal::layout;
      } else if (largest / static_cast<std::size_t>(form.rows.count) >
                 (form.rows.by_channel() ? kMostChannelBytes : kMostRowBytes)) {
        form.refusal = Refusal::larger_than_cache;
      } else if (largest < context_.least_fused_bytes) {
        form.refusal = Refusal::unprofitable;
      } else if (context_.least_fused_bytes > 0 && form.rows.by_channel() && are_small_channels(node, form.rows)) {
        form.refusal = Refusal::unprofitable;
        form.lost = static_cast<double>(largest) * kNanosecondsOfByte;
      }
    }
    form.is_small = largest < context_.least_fused_bytes;
    form.is_turned = node.op->elementwise() && !form.refusal && !has_rows(node.inputs);
    return form;
  }

 private:
  bool has_rows(std::span<const ValueId> values) const {
    return std::all_of(values.begin(), values.end(),
                       [&](ValueId value) { return passes::has_rows(graph_.types[value].shape, strides_[value]); });
  }

  bool are_small_channels(const Node& node, const RowLayout& rows) const {
    const std::size_t largest = largest_of(graph_, node);
    const bool are_reduced =
        node.op->kind == OpKind::reduction && graph_.types[node.output()].shape.product() == rows.count;
    return rows.count < kFewestChannels || rows.plane < kLeastPlane ||
           rows.batch * rows.plane < kLeastElementsOfChannel ||
           (are_reduced ? largest < kLeastReducedChannels : largest < kLeastChannels || rows.plane < kShortPlane);
  }

  std::size_t least_transposed() const { return context_.least_fused_bytes > 0 ? kLeastTransposed : 0; }
  /// The others may have rows.
  bool reads_transposes(std::span<const ValueId> values) const {
    return kind_ == FusedKind::tiles && std::all_of(values.begin(), values.end(), [&](ValueId value) {
             const Shape& shape = graph_.types[value].shape;
             return passes::has_rows(shape, strides_[value]) || is_turned(shape, strides_[value]);
           });
  }

  const Graph& graph_;
  const graph::Users& users_;
  const FusedKind kind_;
  const PassContext& context_;
  const std::vector<Strides> strides_;
};

}  // namespace

std::vector<FusionForm> forms_of(const Graph& graph, const graph::Users& users, FusedKind kind,
                                 const PassContext& context) {
  const Forms forms(graph, users, kind, context);
  std::vector<FusionForm> all;
  for (const Node& node : graph.nodes) {
    all.push_back(forms.of(node));
  }
  return all;
}

std::size_t largest_of(const Graph& graph, const Node& node) {
  std::size_t largest = bytes_of(graph.types[node.output()]);
  for (const ValueId input : node.inputs) {
    largest = std::max(largest, bytes_of(graph.types[input]));
  }
  return largest;
}

bool has_whole_rows(const Graph& graph, const Node& contraction) {
  return contraction.op->epilogue_axes > 1 || columns_of(graph, contraction) <= kMostWholeColumns;
}

}  // namespace diptych::passes
