// Attention (opset 23).

#include "framework/ops/attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/shape.h"
#include "framework/ops/softmax.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// [B, L, heads * E] -> [B, heads, L, E]; an input with four axes is unchanged.
Tensor by_head(const Tensor& x, std::int64_t heads, Location where) {
  if (x.rank() == 4) {
    return x;
  }
  if (x.rank() != 3 || heads < 1 || x.shape()[2] % heads != 0) {
    throw ShapeError(fmt::format("{} has not {} heads", to_string(x.type()), heads));
  }
  const Shape& s = x.shape();
  return permute(reshape(x, {s[0], s[1], heads, s[2] / heads}, where), {0, 2, 1, 3}, where);
}

/// Repeats each head of keys or values for `times` heads of queries.
Tensor repeated(const Tensor& x, std::int64_t times, Location where) {
  if (times == 1) {
    return x;
  }
  const Shape& s = x.shape();
  const Tensor wide = expand(reshape(x, {s[0], s[1], 1, s[2], s[3]}, where), {s[0], s[1], times, s[2], s[3]}, where);
  return reshape(wide, {s[0], s[1] * times, s[2], s[3]}, where);
}

/// A softcap is applied before the mask, as in the later editions of the specification: after it, as in ONNX 1.18,
/// masked positions would take part. Causal rows start after the past ones.
Translation attention(NodeView& node) {
  const bool causal = node.integer("is_causal", 0) != 0;
  const double given_scale = node.real("scale", 0);
  const std::int64_t query_heads = node.integer("q_num_heads", 0);
  const std::int64_t key_heads = node.integer("kv_num_heads", 0);
  const double softcap = node.real("softcap", 0);
  node.integer("qk_matmul_output_mode", 0);
  node.ignore("softmax_precision");  // the engine's softmax is as accurate as the type allows
  if (node.wants_output(3)) {
    node.refuse("the engine doesn't give the scores (output qk_matmul_output)");
  }
  node.check_inputs(3, 6);
  return {[=](Inputs in, Outputs out, Location location) {
    const Tensor q = by_head(in[0].tensor, query_heads, location);
    Tensor k = by_head(in[1].tensor, key_heads, location);
    Tensor v = by_head(in[2].tensor, key_heads, location);
    std::int64_t past = 0;
    if (optional_input(in, 4).defined()) {
      past = optional_input(in, 4).shape()[2];
      k = concat({optional_input(in, 4), k}, 2, location);
      v = concat({optional_input(in, 5), v}, 2, location);
    }
    if (out.size() > 1) {
      out[1].tensor = k;
    }
    if (out.size() > 2) {
      out[2].tensor = v;
    }
    const std::int64_t groups = q.shape()[1] / std::max<std::int64_t>(k.shape()[1], 1);
    if (groups < 1 || k.shape()[1] * groups != q.shape()[1]) {
      throw ShapeError(fmt::format("{} query heads for {} key heads", q.shape()[1], k.shape()[1]));
    }
    k = repeated(k, groups, location);
    v = repeated(v, groups, location);
    AttentionOptions options;
    options.scale = given_scale;
    options.mask = optional_input(in, 3);
    const std::int64_t rows = q.shape()[2];
    const std::int64_t columns = k.shape()[2];
    if (options.mask.defined() && options.mask.rank() == 0) {
      throw ShapeError("a mask without axes");
    }
    if (options.mask.defined() && options.mask.shape().back() < columns) {
      // Columns beyond the mask are excluded.
      const Tensor& mask = options.mask;
      std::vector<PadWidth> widths(static_cast<std::size_t>(mask.rank()));
      widths.back().after = columns - mask.shape().back();
      const double hidden = mask.dtype() == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
      options.mask = pad(mask, widths, PadMode::constant, hidden, location);
    }
    if (causal && past == 0) {
      options.is_causal = true;
    } else if (causal) {
      const Tensor row =
          reshape(arange(static_cast<double>(past), static_cast<double>(past + rows), 1, DType::int64, location),
                  {rows, 1}, location);
      const Tensor column =
          reshape(arange(static_cast<double>(columns), DType::int64, location), {1, columns}, location);
      const Tensor seen = less_equal(column, row, location);
      if (!options.mask.defined()) {
        options.mask = seen;
      } else if (options.mask.dtype() == DType::boolean) {
        options.mask = logical_and(options.mask, seen, location);
      } else {
        options.mask = where(seen, options.mask,
                             scalar_like(options.mask, -std::numeric_limits<double>::infinity(), location), location);
      }
    }
    Tensor y;
    if (softcap > 0) {
      const double scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
      const auto number = [&](double value) { return scalar_like(q, value, location); };
      const Tensor scores = mul(matmul(q, transpose(k, -2, -1, location), location), number(scale), location);
      const Tensor capped = mul(tanh(div(scores, number(softcap), location), location), number(softcap), location);
      y = matmul(masked_softmax(capped, options.mask, options.is_causal, 1, location), v, location);
    } else {
      y = scaled_dot_product_attention(q, k, v, options, location);
    }
    if (in[0].tensor.rank() == 3) {
      const Shape& s = y.shape();
      y = reshape(permute(y, {0, 2, 1, 3}, location), {s[0], s[2], s[1] * s[3]}, location);
    }
    out[0].tensor = y;
  }};
}

}  // namespace

void add_attention(std::vector<Operator>& all) {
  all.push_back({"Attention", 23, kNewestOpset, attention, "without the output of the scores"});
}

}  // namespace diptych::onnx
