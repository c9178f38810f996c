#include "framework/nn/transformer.h"

#include "framework/ops/elementwise.h"

namespace diptych::nn {
namespace {

MultiHeadAttentionOptions attention_of(const TransformerEncoderLayerOptions& options) {
  MultiHeadAttentionOptions attention = options.attention;
  attention.is_causal = options.is_causal;
  return attention;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t width, std::int64_t heads, Rng& rng,
                                                 const TransformerEncoderLayerOptions& options)
    : norm_first_(options.norm_first) {
  const NormOptions norm{.eps = options.layer_norm_eps, .dtype = options.linear.dtype};
  attention_ = add("self_attention", std::make_shared<MultiHeadAttention>(width, heads, rng, attention_of(options)));
  linear1_ = add("linear1", std::make_shared<Linear>(width, options.dim_feedforward, rng, options.linear));
  linear2_ = add("linear2", std::make_shared<Linear>(options.dim_feedforward, width, rng, options.linear));
  norm1_ = add("norm1", std::make_shared<LayerNorm>(Shape{width}, norm));
  norm2_ = add("norm2", std::make_shared<LayerNorm>(Shape{width}, norm));
  dropout_ = add("dropout", std::make_shared<Dropout>(options.dropout, options.generator));
  dropout1_ = add("dropout1", std::make_shared<Dropout>(options.dropout, options.generator));
  dropout2_ = add("dropout2", std::make_shared<Dropout>(options.dropout, options.generator));
  activation_ = add("activation", activation_by_name(options.activation));
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x, Location where) {
  const Tensor hidden = (*dropout_)((*activation_)((*linear1_)(x, where), where), where);
  return (*dropout2_)((*linear2_)(hidden, where), where);
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const Tensor& mask) {
  const Location where = caller();
  const auto attend = [&](const Tensor& y) { return (*dropout1_)((*attention_)(y, y, y, mask, where), where); };
  if (norm_first_) {
    const Tensor attended = diptych::add(x, attend((*norm1_)(x, where)), where);
    return diptych::add(attended, feed_forward((*norm2_)(attended, where), where), where);
  }
  const Tensor attended = (*norm1_)(diptych::add(x, attend(x), where), where);
  return (*norm2_)(diptych::add(attended, feed_forward(attended, where), where), where);
}

}  // namespace diptych::nn
