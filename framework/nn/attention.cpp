#include "framework/nn/attention.h"

#include "framework/nn/check.h"
#include "framework/ops/attention.h"
#include "framework/ops/view.h"

namespace diptych::nn {

MultiHeadAttention::MultiHeadAttention(std::int64_t width, std::int64_t heads, Rng& rng,
                                       const MultiHeadAttentionOptions& options)
    : width_(detail::checked_length("MultiHeadAttention", "width", width)),
      heads_(detail::checked_length("MultiHeadAttention", "heads", heads)),
      is_causal_(options.is_causal),
      dropout_(options.dropout),
      generator_(options.generator) {
  if (width % heads != 0) {
    throw Error(fmt::format("MultiHeadAttention: {} heads don't divide a width of {}; choose a divisor", heads, width));
  }
  const LinearOptions projection{options.bias, options.init, "zeros", options.dtype};
  query_ = add("query", std::make_shared<Linear>(width, width, rng, projection));
  key_ = add("key", std::make_shared<Linear>(width, width, rng, projection));
  value_ = add("value", std::make_shared<Linear>(width, width, rng, projection));
  output_ = add("output", std::make_shared<Linear>(width, width, rng, projection));
}

Tensor MultiHeadAttention::split_heads(const Tensor& x, Location where) const {
  return transpose(reshape(x, {x.shape()[0], x.shape()[1], heads_, width_ / heads_}, where), 1, 2, where);
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  const Location where = caller();
  for (const Tensor* x : {&query, &key, &value}) {
    if (x->rank() != 3 || x->shape()[2] != width_) {
      throw ShapeError(fmt::format("MultiHeadAttention: {} is not [N, L, {}]", to_string(x->type()), width_), where,
                       "reshape it, or build the module with its width");
    }
  }
  const Tensor heads = scaled_dot_product_attention(
      split_heads((*query_)(query, where), where), split_heads((*key_)(key, where), where),
      split_heads((*value_)(value, where), where),
      {.mask = mask, .is_causal = is_causal_, .dropout = is_training() ? dropout_ : 0, .generator = generator_}, where);
  return (*output_)(reshape(transpose(heads, 1, 2, where), query.shape(), where), where);
}

}  // namespace diptych::nn
