#include "framework/nn/embedding.h"

#include "framework/nn/check.h"
#include "framework/nn/init.h"
#include "framework/ops/indexing.h"

namespace diptych::nn {

Embedding::Embedding(std::int64_t entries, std::int64_t width, Rng& rng, const EmbeddingOptions& options) {
  detail::checked_length("Embedding", "entries", entries);
  detail::checked_length("Embedding", "width", width);
  weight = parameter("weight", init::by_name(options.init, rng, {entries, width}, {entries, width}, options.dtype));
}
Tensor Embedding::forward(const Tensor& indices) { return embedding(indices, weight, caller()); }

}  // namespace diptych::nn
