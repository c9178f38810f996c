// Attention and rotary embeddings (opset 23).

#include "framework/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
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

/// What a node says about its scores, before any tensor is known.
struct Scores {
  bool causal = false;
  double scale = 0;
  double softcap = 0;
  /// The output qk_matmul_output: the product, after the softcap, after the mask, after the softmax. (ONNX 1.18 to 1.20
  /// number the second and third the other way round.)
  std::int64_t stage = 0;
  bool wants_stage = false;
  std::int64_t window = -1;  ///< how many columns before a row's own it sees; -1: all
};

/// Masks of all types: bool says what takes part, any other is added.
Tensor mask_of(const Tensor& mask, const Tensor& q, std::int64_t columns, Location where) {
  if (!mask.defined()) {
    return mask;
  }
  if (mask.rank() == 0) {
    throw ShapeError("a mask without axes");
  }
  const Tensor typed = mask.dtype() == DType::boolean ? mask : cast(mask, q.dtype(), where);
  if (mask.shape().back() >= columns) {
    return typed;
  }
  // Columns beyond the mask are excluded.
  std::vector<PadWidth> widths(static_cast<std::size_t>(mask.rank()));
  widths.back().after = columns - mask.shape().back();
  const double hidden = mask.dtype() == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  return pad(typed, widths, PadMode::constant, hidden, where);
}

/// `mask` where `seen` holds; elsewhere nothing takes part.
Tensor restricted(const Tensor& mask, const Tensor& seen, Location location) {
  if (!mask.defined()) {
    return seen;
  }
  if (mask.dtype() == DType::boolean) {
    return logical_and(mask, seen, location);
  }
  return where(seen, mask, scalar_like(mask, -std::numeric_limits<double>::infinity(), location), location);
}

Tensor counted(std::int64_t from, std::int64_t count, const Shape& shape, Location where) {
  return reshape(arange(static_cast<double>(from), static_cast<double>(from + count), 1, DType::int64, where), shape,
                 where);
}

/// The column that each row stands at, of tokens up to a length of each batch: i64[B, 1, rows, 1].
Tensor own_columns(const Tensor& valid, std::int64_t rows, Location where) {
  const Tensor length = reshape(cast(valid, DType::int64, where), {valid.numel(), 1, 1, 1}, where);
  return add(length, counted(-rows, rows, {1, 1, rows, 1}, where), where);
}

/// The columns that are no padding and, if the rows are causal, not behind them: bool[B, 1, rows or 1, columns].
Tensor seen_of(const Tensor& valid, bool causal, std::int64_t rows, std::int64_t columns, Location where) {
  const Tensor column = counted(0, columns, {1, 1, 1, columns}, where);
  const Tensor length = reshape(cast(valid, DType::int64, where), {valid.numel(), 1, 1, 1}, where);
  const Tensor is_token = less(column, length, where);
  if (!causal) {
    return is_token;
  }
  return logical_and(is_token, less_equal(column, own_columns(valid, rows, where), where), where);
}

/// The scores at the wanted stage, and the result from them.
Tensor attended(const Scores& scores, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options, Outputs out, Location location) {
  if (scores.softcap <= 0 && !scores.wants_stage) {
    return scaled_dot_product_attention(q, k, v, options, location);
  }
  const double scale = scores.scale != 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  const auto number = [&](double value) { return scalar_like(q, value, location); };
  const Tensor product = mul(matmul(q, transpose(k, -2, -1, location), location), number(scale), location);
  const Tensor capped = scores.softcap > 0 ? mul(tanh(div(product, number(scores.softcap), location), location),
                                                 number(scores.softcap), location)
                                           : product;
  const Tensor weights = masked_softmax(capped, options.mask, options.is_causal, 1, location);
  if (scores.wants_stage) {
    Tensor masked = capped;
    if (scores.stage == 2 && options.is_causal) {
      const std::int64_t rows = q.shape()[2];
      const std::int64_t columns = k.shape()[2];
      const Tensor seen =
          less_equal(counted(0, columns, {1, columns}, location), counted(0, rows, {rows, 1}, location), location);
      masked = restricted(masked, seen, location);
    }
    if (scores.stage == 2 && options.mask.defined()) {
      masked = options.mask.dtype() == DType::boolean ? restricted(masked, options.mask, location)
                                                      : add(masked, options.mask, location);
    }
    out[3].tensor = scores.stage == 0 ? product : scores.stage == 1 ? capped : scores.stage == 2 ? masked : weights;
  }
  return matmul(weights, v, location);
}

/// A softcap is applied before the mask, as in the later editions of the specification: after it, as in ONNX 1.18,
/// masked positions would take part. Causal rows start after the past ones.
Translation attention(NodeView& node) {
  Scores scores;
  scores.causal = node.integer("is_causal", 0) != 0;
  scores.scale = node.real("scale", 0);
  scores.softcap = node.real("softcap", 0);
  scores.stage = node.integer("qk_matmul_output_mode", 0);
  scores.wants_stage = node.wants_output(3);
  const std::int64_t query_heads = node.integer("q_num_heads", 0);
  const std::int64_t key_heads = node.integer("kv_num_heads", 0);
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // beyond any column
  scores.window = node.opset() >= 25 ? std::min(node.integer("left_window_size", -1), kFar) : -1;
  if (scores.window < -1) {
    node.malformed(fmt::format("its left_window_size is {}; it is 0 or more, or -1 for none", scores.window));
  }
  node.ignore("softmax_precision");  // the engine's softmax is as accurate as the type allows
  if (scores.stage < 0 || scores.stage > 3) {
    node.malformed("its qk_matmul_output_mode isn't from 0 to 3");
  }
  node.check_inputs(3, node.opset() < 24 ? 6 : 7);
  if (node.has_input(6) && (node.has_input(4) || node.has_input(5))) {
    node.malformed("it has past keys and nonpad_kv_seqlen, which exclude each other");
  }
  if (node.has_input(4) != node.has_input(5)) {
    node.malformed("it has one of past_key and past_value, not both");
  }
  return {[=](Inputs in, Outputs out, Location location) {
    const Tensor q = by_head(in[0].tensor, query_heads, location);
    Tensor k = by_head(in[1].tensor, key_heads, location);
    Tensor v = by_head(in[2].tensor, key_heads, location);
    std::int64_t past = 0;
    if (const Tensor before = optional_input(in, 4); before.defined()) {
      if (before.rank() != 4) {
        throw ShapeError(fmt::format("past keys {}", to_string(before.type())));
      }
      past = before.shape()[2];
      k = concat({before, k}, 2, location);
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
    const std::int64_t rows = q.shape()[2];
    const std::int64_t columns = k.shape()[2];
    AttentionOptions options;
    options.scale = scores.scale;
    options.mask = mask_of(optional_input(in, 3), q, columns, location);
    if (const Tensor valid = optional_input(in, 6); valid.defined()) {
      options.mask = restricted(options.mask, seen_of(valid, scores.causal, rows, columns, location), location);
    } else if (scores.causal && past == 0) {
      options.is_causal = true;
    } else if (scores.causal) {
      const Tensor seen =
          less_equal(counted(0, columns, {1, columns}, location), counted(past, rows, {rows, 1}, location), location);
      options.mask = restricted(options.mask, seen, location);
    }
    if (scores.window >= 0) {
      const Tensor valid = optional_input(in, 6);
      const Tensor own =
          valid.defined() ? own_columns(valid, rows, location) : counted(past, rows, {rows, 1}, location);
      const Tensor first = sub(own, Tensor::scalar(scores.window), location);
      options.mask = restricted(options.mask,
                                greater_equal(counted(0, columns, {1, columns}, location), first, location), location);
    }
    Tensor y = attended(scores, q, k, v, options, out, location);
    if (in[0].tensor.rank() == 3) {
      const Shape& s = y.shape();
      y = reshape(permute(y, {0, 2, 1, 3}, location), {s[0], s[2], s[1] * s[3]}, location);
    }
    out[0].tensor = y;
  }};
}

/// One of the tables of angles as [B, 1, L, pairs]: rows of a table at positions, or given for each position.
Tensor angles(const Tensor& table, const Value& positions, std::int64_t pairs, Location where) {
  const bool at_positions = positions.tensor.defined();
  if (table.rank() != (at_positions ? 2 : 3) || table.shape().back() != pairs) {
    throw ShapeError(fmt::format("a table of angles {} for {} pairs", to_string(table.type()), pairs));
  }
  return unsqueeze(at_positions ? index_select(table, 0, positions.tensor, where) : table, 1, where);
}

/// Pairs of elements turned by their position's angle [Su et al. 2021].
Translation rotary_embedding(NodeView& node) {
  const bool interleaved = node.integer("interleaved", 0) != 0;
  const std::int64_t heads = node.integer("num_heads", 0);
  const std::int64_t share = node.integer("rotary_embedding_dim", 0);
  node.check_inputs(3, 4);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor x = by_head(in[0].tensor, heads, where);  // [B, heads, L, E]
    const std::int64_t width = x.shape()[3];
    const std::int64_t turned = share == 0 ? width : share;
    if (turned < 0 || turned > width || turned % 2 != 0) {
      throw ShapeError(fmt::format("{} of {} elements can't be turned in pairs", turned, width));
    }
    const Value positions = in.size() > 3 ? in[3] : Value();
    const Tensor cosine = angles(in[1].tensor, positions, turned / 2, where);
    const Tensor sine = angles(in[2].tensor, positions, turned / 2, where);
    const Tensor head = slice(x, 3, 0, turned, 1, where);
    const Tensor first = interleaved ? slice(head, 3, 0, turned, 2, where) : slice(head, 3, 0, turned / 2, 1, where);
    const Tensor second =
        interleaved ? slice(head, 3, 1, turned, 2, where) : slice(head, 3, turned / 2, turned, 1, where);
    const Tensor real = sub(mul(cosine, first, where), mul(sine, second, where), where);
    const Tensor imaginary = add(mul(sine, first, where), mul(cosine, second, where), where);
    Tensor y = interleaved ? reshape(stack({real, imaginary}, 4, where), head.shape(), where)
                           : concat({real, imaginary}, 3, where);
    if (turned < width) {
      y = concat({y, slice(x, 3, turned, width, 1, where)}, 3, where);
    }
    out[0].tensor =
        in[0].tensor.rank() == 3 ? reshape(permute(y, {0, 2, 1, 3}, where), in[0].tensor.shape(), where) : y;
  }};
}

}  // namespace

void add_attention(std::vector<Operator>& all) {
  all.push_back({"Attention", 23, kNewestOpset, attention});
  all.push_back({"RotaryEmbedding", 23, kNewestOpset, rotary_embedding});
}

}  // namespace diptych::onnx
