#pragma once

#include "framework/nn/module.h"

namespace diptych::nn {

struct EmbeddingOptions {
  std::string init = "normal";  ///< see framework/nn/init.h
  DType dtype = DType::float32;
};

/// indices: integers[...] -> [..., width]: row `index` of weight[entries, width]. Throws Error for an index out of
/// range.
class Embedding : public Module {
 public:
  Embedding(std::int64_t entries, std::int64_t width, Rng& rng, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) override;

  Variable weight;
};

}  // namespace diptych::nn
