#pragma once

#include "framework/nn/activation.h"
#include "framework/nn/attention.h"
#include "framework/nn/dropout.h"
#include "framework/nn/normalisation.h"

namespace diptych::nn {

struct TransformerEncoderLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  ///< see activation_by_name()
  double layer_norm_eps = 1e-5;
  bool norm_first = false;
  bool is_causal = false;
  std::optional<Generator> generator = std::nullopt;  ///< for dropout
  MultiHeadAttentionOptions attention = {};           ///< its is_causal is set from the one above
  LinearOptions linear = {};
};

/// Self-attention, then a feed-forward network [Vaswani et al. 2017], each with a residual and a layer norm, which
/// comes after it, or before it with norm_first [Xiong et al. 2020]. x: [N, L, width], mask (may be undefined): as in
/// MultiHeadAttention -> [N, L, width].
class TransformerEncoderLayer : public ModuleOf<2> {
 public:
  TransformerEncoderLayer(std::int64_t width, std::int64_t heads, Rng& rng,
                          const TransformerEncoderLayerOptions& options = {});

  using ModuleOf<2>::operator();
  Tensor operator()(const Tensor& x, Location where = Location::current()) { return (*this)(x, Tensor(), where); }

 protected:
  Tensor forward(const Tensor& x, const Tensor& mask) override;

 private:
  Tensor feed_forward(const Tensor& x, Location where);

  bool norm_first_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Linear> linear1_, linear2_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_;
  ModulePtr activation_;
};

}  // namespace diptych::nn
