#pragma once

#include <optional>

#include "framework/nn/layers.h"
#include "framework/ops/random.h"

namespace diptych::nn {

struct MultiHeadAttentionOptions {
  bool bias = true;
  bool is_causal = false;
  std::string init = "xavier_uniform";  ///< of the four projections; see framework/nn/init.h
  DType dtype = DType::float32;
  double dropout = 0;                                 ///< of the weights, while training
  std::optional<Generator> generator = std::nullopt;  ///< for dropout
};

/// Multi-head attention [Vaswani et al. 2017]. query: [N, L, width], key and value: [N, S, width], mask (may be
/// undefined): broadcasts to [N, heads, L, S], bool (true: takes part) or added to the scores -> [N, L, width].
///   attention(x)                    self-attention
///   attention(x, memory, memory)    cross-attention
class MultiHeadAttention : public ModuleOf<4> {
 public:
  /// Throws Error unless `heads` divides the width.
  MultiHeadAttention(std::int64_t width, std::int64_t heads, Rng& rng, const MultiHeadAttentionOptions& options = {});

  using ModuleOf<4>::operator();
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, Location where = Location::current()) {
    return (*this)(query, key, value, Tensor(), where);
  }
  Tensor operator()(const Tensor& x, Location where = Location::current()) { return (*this)(x, x, x, Tensor(), where); }

 protected:
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) override;

 private:
  /// [N, L, width] -> [N, heads, L, width / heads], a view.
  Tensor split_heads(const Tensor& x, Location where) const;

  std::int64_t width_, heads_;
  bool is_causal_;
  double dropout_;
  std::optional<Generator> generator_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
};

}  // namespace diptych::nn
