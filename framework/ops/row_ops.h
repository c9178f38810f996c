#pragma once

#include "framework/dispatch/op.h"
#include "framework/ops/cross_entropy.h"

namespace diptych::ops {

struct SoftmaxAttributes {
  double scale = 1;
  bool is_causal = false;
  static constexpr auto fields() {
    return std::tuple(field("scale", &SoftmaxAttributes::scale), field("is_causal", &SoftmaxAttributes::is_causal));
  }
};

/// Of the gradient of attention. `whole_rows`: as if scores had been hidden by -inf before an ordinary softmax, whose
/// gradient goes over all columns: a gradient of a hidden weight that isn't finite makes the row's NaN.
struct AttentionGradientAttributes {
  double scale = 1;
  bool is_causal = false;
  bool whole_rows = false;
  static constexpr auto fields() {
    return std::tuple(field("scale", &AttentionGradientAttributes::scale),
                      field("is_causal", &AttentionGradientAttributes::is_causal),
                      field("whole_rows", &AttentionGradientAttributes::whole_rows));
  }
};

/// Attention whose weights are dropped out: each is kept with probability `keep`, times `factor`.
struct DropoutAttentionAttributes {
  double scale = 1;
  bool is_causal = false;
  double keep = 1;
  double factor = 1;
  static constexpr auto fields() {
    return std::tuple(
        field("scale", &DropoutAttentionAttributes::scale), field("is_causal", &DropoutAttentionAttributes::is_causal),
        field("keep", &DropoutAttentionAttributes::keep), field("factor", &DropoutAttentionAttributes::factor));
  }
};

/// Of its gradient; `whole_rows`: as AttentionGradientAttributes have it.
struct DropoutAttentionGradientAttributes {
  double scale = 1;
  bool is_causal = false;
  double keep = 1;
  double factor = 1;
  bool whole_rows = false;
  static constexpr auto fields() {
    return std::tuple(field("scale", &DropoutAttentionGradientAttributes::scale),
                      field("is_causal", &DropoutAttentionGradientAttributes::is_causal),
                      field("keep", &DropoutAttentionGradientAttributes::keep),
                      field("factor", &DropoutAttentionGradientAttributes::factor),
                      field("whole_rows", &DropoutAttentionGradientAttributes::whole_rows));
  }
};

struct TrailingAttributes {
  std::int64_t axes = 1;  ///< number of trailing axes
  double eps = 1e-5;
  static constexpr auto fields() {
    return std::tuple(field("axes", &TrailingAttributes::axes), field("eps", &TrailingAttributes::eps));
  }
};

struct ChannelAttributes {
  double eps = 1e-5;
  static constexpr auto fields() { return std::tuple(field("eps", &ChannelAttributes::eps)); }
};

struct CrossEntropyAttributes {
  double label_smoothing = 0;
  std::int64_t ignore_index = kIgnoreNothing;
  static constexpr auto fields() {
    return std::tuple(field("label_smoothing", &CrossEntropyAttributes::label_smoothing),
                      field("ignore_index", &CrossEntropyAttributes::ignore_index));
  }
};

struct ClassLabelsAttributes {
  std::int64_t classes = 0;
  std::int64_t ignore_index = kIgnoreNothing;
  InternedText op;  ///< which one checks, for its error
  static constexpr auto fields() {
    return std::tuple(field("classes", &ClassLabelsAttributes::classes),
                      field("ignore_index", &ClassLabelsAttributes::ignore_index),
                      field("op", &ClassLabelsAttributes::op));
  }
};

struct HuberAttributes {
  double delta = 1;
  static constexpr auto fields() { return std::tuple(field("delta", &HuberAttributes::delta)); }
};

}  // namespace diptych::ops

/// Handles for passes and other code that inspects graphs: `node.op == &op::mul`.
namespace diptych::op {

// softmax.cpp
extern const OpDef& softmax;
extern const OpDef& log_softmax;
extern const OpDef& softmax_backward;
extern const OpDef& log_softmax_backward;
// masked_softmax.cpp
extern const OpDef& masked_softmax_backward;
extern const OpDef& masked_softmax;
// attention.cpp
extern const OpDef& attention;
extern const OpDef& attention_backward;
extern const OpDef& dropout_attention;
extern const OpDef& dropout_attention_backward;
// normalisation.cpp
extern const OpDef& layer_norm;
extern const OpDef& rms_norm;
extern const OpDef& batch_norm;
// normalisation_gradient.cpp
extern const OpDef& layer_norm_statistics;
extern const OpDef& rms_norm_statistics;
extern const OpDef& batch_norm_statistics;
extern const OpDef& layer_norm_input_gradient;
extern const OpDef& layer_norm_weight_gradient;
extern const OpDef& rms_norm_input_gradient;
extern const OpDef& rms_norm_weight_gradient;
extern const OpDef& batch_norm_input_gradient;
extern const OpDef& batch_norm_weight_gradient;
// cross_entropy.cpp
extern const OpDef& cross_entropy;
extern const OpDef& cross_entropy_backward;
extern const OpDef& cross_entropy_of_classes;
extern const OpDef& cross_entropy_backward_of_classes;
extern const OpDef& class_labels;
// loss.cpp
extern const OpDef& bce_with_logits;
extern const OpDef& huber_loss;

}  // namespace diptych::op
