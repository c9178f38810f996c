// softmax(scale q k^T + mask) v, written as the ops that it consists of, with dropout of the weights or without,
// becomes one attention op, which has the same bits (kernels/attention.h) and keeps the scores in the cache. It must
// not where something else reads the scores or the weights, where leading axes broadcast, or where BLAS multiplies
// matrices.
//
//   %3 = permute(%k) {axes=[0,2,1]}
//   %4 = matmul(%q, %3)
//   %5 = mul(%4, %scale)            =>   %7 = attention(%q, %k, %v) {scale}
//   %6 = softmax(%5)
//   %7 = matmul(%6, %v)
//
// Where the weights are read for the gradients by q, k and v, these become one op, too (attention_forms.cpp has them):
//
//   %8 = matmul(permute(%6), %g)
//   ...                             =>   %8, %9, %10 = parts of attention_backward(%g, %q, %k, %v)
//   %10 = matmul(permute(%q), %..)
//
// It computes the scores and the weights a second time, which pays where half of them are hidden: time over that of the
// ops, by `diptych run` of such graphs (AMD EPYC, Zen 5, heads x length): 32 x 64 1.34, 16 x 128 1.0, 16 x 196 0.81,
// 4 x 320 0.89, 2 x 1024 0.62; masked by `where`, which computes what it hides, 1.21, 0.86, 0.61, 0.59, 0.48. Nothing
// hidden: 1.0 to 1.3, and 1.07 to 1.09 where the weights are larger than all caches. With dropout, whose numbers are
// drawn again, too (Zen 3, width 32): 16 x 196 1.27, 8 x 256 1.13, 4 x 400 1.00, 2 x 512 0.97, 2 x 1024 0.85; masked by
// `where` 1.0, 0.86, 0.83, 0.77, 0.77.

#include <map>
#include <utility>

#include "framework/kernels/gemm.h"
#include "framework/ops/axis_attributes.h"
#include "framework/ops/shape_ops.h"
#include "framework/passes/attention_forms.h"
#include "framework/passes/pass.h"
#include "framework/passes/views.h"

namespace diptych::passes {
namespace {

using graph::Node;
using graph::ValueId;

/// Matrices of fewer scores keep their weights for the gradient: see above.
constexpr std::int64_t kFewestScores = std::int64_t{192} * 192;
constexpr std::int64_t kFewestHiddenByWhere = std::int64_t{128} * 128;
constexpr std::int64_t kFewestDropped = std::int64_t{400} * 400;
constexpr std::int64_t kFewestDroppedHiddenByWhere = std::int64_t{224} * 224;

class AttentionJoiner {
 public:
  AttentionJoiner(graph::Graph& graph, std::vector<FusionRefusal>* refusals) : rewriter_(graph) {
    find(graph, refusals);
  }

  bool run() {
    return rewriter_.run([this](Node& node) { visit(node); });
  }

 private:
  struct Found {
    AttentionForm form;
    bool has_parts = false;  ///< of the gradient, from its first node on
    ValueId by_q = 0, by_k = 0, by_v = 0;
  };

  void find(const graph::Graph& graph, std::vector<FusionRefusal>* refusals) {
    const AttentionForms forms(graph);
    const AttentionForms read_by_others(graph, true);
    for (const Node& node : graph.nodes) {
      std::optional<AttentionForm> form = forms.ending_with(node);
      if (!form || !is_accepted(*form)) {
        if (refusals != nullptr && (form || read_by_others.ending_with(node))) {
          const Node& weights = *forms.producer(node.inputs[0]);
          refusals->push_back({node.inputs[0], node.output(), weights.op, node.op,
                               form ? Refusal::unprofitable : Refusal::several_uses});
        }
        continue;
      }
      const std::size_t index = forms_.size();
      at_[form->result] = index;
      if (form->gradient) {
        at_[form->gradient->q] = at_[form->gradient->transposed_k] = at_[form->gradient->v] = index;
      }
      forms_.push_back({std::move(*form)});
    }
  }

  bool is_accepted(const AttentionForm& form) const {
    if (!form.gradient) {
      return true;
    }
    const Shape& q = type(form.q).shape;
    const std::int64_t scores = q[q.rank() - 2] * type(form.transposed_k).shape.back();
    const std::int64_t fewest = form.gradient->whole_rows
                                    ? (form.drop ? kFewestDroppedHiddenByWhere : kFewestHiddenByWhere)
                                    : (form.drop ? kFewestDropped : kFewestScores);
    return form.softmax.is_causal && scores >= fewest;
  }

  const TensorType& type(ValueId value) const { return rewriter_.type(value); }

  /// `in_front`: what stands before q.
  std::vector<ValueId> inputs_of(const AttentionForm& form, const Node& node, std::vector<ValueId> in_front) {
    std::vector<ValueId> inputs = std::move(in_front);
    if (form.drop) {
      inputs.push_back(form.drop->state);
    }
    inputs.insert(inputs.end(), {form.q, swapped(form.transposed_k, node), form.v});
    if (form.mask) {
      inputs.push_back(*form.mask);
    }
    return inputs;
  }

  /// A view, which costs nothing.
  static AttributeValue swap_of(int rank) {
    ops::AxesAttributes axes;
    for (int axis = 0; axis < rank; ++axis) {
      axes.axes.push_back(axis);
    }
    axes.axes[rank - 2] = rank - 1;
    axes.axes[rank - 1] = rank - 2;
    return {&attribute_type<ops::AxesAttributes>, &axes};
  }
  ValueId swapped(ValueId value, const Node& node) {
    return rewriter_.insert(op::permute, {value}, swap_of(type(value).shape.rank()), node);
  }

  void visit(Node& node) {
    const auto found = node.outputs.empty() ? at_.end() : at_.find(node.output());
    if (found == at_.end()) {
      return;
    }
    Found& of = forms_[found->second];
    if (node.output() == of.form.result) {
      join(of.form, node);
    } else {
      join_gradient(of, node);
    }
  }

  AttributeValue attributes_of(const AttentionForm& form) const {
    if (form.drop) {
      const ops::DropoutAttentionAttributes dropping{form.softmax.scale, form.softmax.is_causal, form.drop->keep,
                                                     form.drop->factor};
      return {&attribute_type<ops::DropoutAttentionAttributes>, &dropping};
    }
    return {&attribute_type<ops::SoftmaxAttributes>, &form.softmax};
  }

  AttributeValue gradient_attributes_of(const AttentionForm& form) const {
    if (form.drop) {
      const ops::DropoutAttentionGradientAttributes dropping{
          form.softmax.scale, form.softmax.is_causal, form.drop->keep, form.drop->factor, form.gradient->whole_rows};
      return {&attribute_type<ops::DropoutAttentionGradientAttributes>, &dropping};
    }
    const ops::AttentionGradientAttributes plain{form.softmax.scale, form.softmax.is_causal, form.gradient->whole_rows};
    return {&attribute_type<ops::AttentionGradientAttributes>, &plain};
  }

  void join(const AttentionForm& form, Node& node) {
    const OpDef& joined = form.drop ? op::dropout_attention : op::attention;
    const std::vector<ValueId> inputs = inputs_of(form, node, {});
    const AttributeValue attributes = attributes_of(form);
    if (rewriter_.inferred(joined, inputs, attributes) == type(form.result)) {
      node.provenance = form.provenance;
      rewriter_.become(node, joined, inputs, attributes);
    }
  }

  void join_gradient(Found& of, Node& node) {
    const AttentionForm::Gradient& gradient = *of.form.gradient;
    const ValueId output = node.output();
    if (output == gradient.first) {
      insert_gradient(of, node);
    }
    if (!of.has_parts) {
      return;
    }
    if (output == gradient.v || output == gradient.q) {
      const ValueId part = output == gradient.v ? of.by_v : of.by_q;
      rewriter_.become(node, op::reshape, {part}, to_shape(type(output).shape));
    } else if (output == gradient.transposed_k) {
      Shape shape = type(output).shape;
      const int rank = shape.rank();
      std::swap(shape[rank - 1], shape[rank - 2]);
      const ValueId k = rewriter_.insert(op::reshape, {of.by_k}, to_shape(shape), node);
      rewriter_.become(node, op::permute, {k}, swap_of(rank));
    }
  }

  void insert_gradient(Found& of, const Node& node) {
    const AttentionForm& form = of.form;
    Node source = node;
    source.provenance = form.gradient->provenance;
    const AttributeValue attributes = gradient_attributes_of(form);
    const OpDef& backward = form.drop ? op::dropout_attention_backward : op::attention_backward;
    const std::vector<ValueId> inputs = inputs_of(form, source, {form.gradient->g});
    if (!rewriter_.inferred(backward, inputs, attributes)) {
      return;
    }
    const ValueId flat = rewriter_.insert(backward, inputs, attributes, source);
    std::int64_t begin = 0;
    const auto part = [&](ValueId like) {
      const std::int64_t end = begin + type(like).shape.product();
      const ops::SliceAttributes slice{0, std::exchange(begin, end), end, 1};
      return rewriter_.insert(op::slice, {flat}, {&attribute_type<ops::SliceAttributes>, &slice}, source);
    };
    of.has_parts = true;
    of.by_q = part(form.q);
    of.by_k = part(form.transposed_k);
    of.by_v = part(form.v);
  }

  graph::Rewriter rewriter_;
  std::vector<Found> forms_;
  std::map<ValueId, std::size_t> at_;  ///< by what their nodes make
};

}  // namespace

bool join_attention(graph::Graph& graph, const PassContext& context) {
  return kernels::active_gemm() == kernels::Gemm::tiles && AttentionJoiner(graph, context.refusals).run();
}

}  // namespace diptych::passes
