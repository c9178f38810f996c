// Layers with a state instead of a cache of keys (opset 27): causal convolutions and linear attention.

#include <cmath>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/io/onnx/operators.h"
#include "framework/ops/activation.h"
#include "framework/ops/convolution.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/matmul.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// x[B, C, L], weight[C, 1, k]: each channel by itself, with the last k - 1 places before x, or zeros.
Translation causal_convolution(NodeView& node) {
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    node.refuse(fmt::format("its activation {} isn't known", quote(activation)));
  }
  node.check_inputs(2, 4);
  return {[=](Inputs in, Outputs out, Location where) {
    const Tensor& x = in[0].tensor;
    const Tensor& weight = in[1].tensor;
    if (x.rank() != 3 || weight.rank() != 3 || weight.shape()[2] < 1) {
      throw ShapeError(fmt::format("{} by {}", to_string(x.type()), to_string(weight.type())));
    }
    const std::int64_t before = weight.shape()[2] - 1;
    Tensor past = optional_input(in, 3);
    if (!past.defined()) {
      past = full({x.shape()[0], x.shape()[1], before}, 0, x.dtype(), where);
    }
    if (past.shape() != Shape{x.shape()[0], x.shape()[1], before}) {
      throw ShapeError(fmt::format("a past of {} for {}", to_string(past.type()), to_string(x.type())));
    }
    const Tensor all = concat({past, x}, 2, where);
    const Tensor y = conv1d(all, weight, optional_input(in, 2), {.groups = x.shape()[1]}, where);
    out[0].tensor = activation == "none" ? y : silu(y, where);
    if (out.size() > 1) {
      out[1].tensor = slice(all, 2, x.shape()[2], x.shape()[2] + before, 1, where);
    }
  }};
}

/// What a node says of its recurrence.
struct Recurrence {
  bool is_gated = false;    ///< the state decays by e^decay
  bool corrects = false;    ///< what the state already says of a key is taken from its value, times beta
  std::int64_t heads = 0;   ///< of queries
  std::int64_t states = 0;  ///< of keys and values, each for as many heads of queries
  double scale = 0;
};

/// [B, T, heads * D] -> [B, heads, T, D]
Tensor heads_of(const Tensor& x, std::int64_t heads, Location where) {
  const Shape& s = x.shape();
  if (s.rank() != 3 || s[2] % heads != 0) {
    throw ShapeError(fmt::format("{} has not {} heads", to_string(x.type()), heads));
  }
  return permute(reshape(x, {s[0], s[1], heads, s[2] / heads}, where), {0, 2, 1, 3}, where);
}

/// With the state S[B, states, dk, dv], at each place: S = e^g S, v = beta (v - S' k), S = S + k v', o = scale S' q.
Translation linear_attention(NodeView& node) {
  const std::string rule = node.text("update_rule", "gated_delta");
  Recurrence r;
  r.is_gated = rule == "gated" || rule == "gated_delta";
  r.corrects = rule == "delta" || rule == "gated_delta";
  r.heads = node.integer("q_num_heads", 0);
  r.states = node.integer("kv_num_heads", 0);
  r.scale = node.real("scale", 0);
  node.ignore("chunk_size");  // how much a fused kernel takes at once
  if (rule != "linear" && !r.is_gated && !r.corrects) {
    node.refuse(fmt::format("its update_rule {} isn't known", quote(rule)));
  }
  node.check_inputs(3, 6);
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 20;
  if (r.states < 1 || r.heads < r.states || r.heads > kMostHeads || r.heads % r.states != 0 ||
      node.has_input(4) != r.is_gated || node.has_input(5) != r.corrects) {
    node.malformed("its numbers of heads, or its decay and beta, don't fit its update_rule");
  }
  return {[=](Inputs in, Outputs out, Location where) {
    const DType type = in[0].tensor.dtype();
    const DType computed = type == DType::float64 ? type : DType::float32;
    const auto wide = [&](std::size_t i) { return cast(in[i].tensor, computed, where); };
    const Tensor q = heads_of(wide(0), r.heads, where);
    const Tensor k = heads_of(wide(1), r.states, where);
    const Tensor v = heads_of(wide(2), r.states, where);
    const Tensor decay = r.is_gated ? heads_of(wide(4), r.states, where) : Tensor();
    Tensor beta;
    if (r.corrects) {
      beta = wide(5).shape().back() == 1 ? heads_of(wide(5), 1, where) : heads_of(wide(5), r.states, where);
    }
    const std::int64_t batch = q.shape()[0];
    const std::int64_t length = q.shape()[2];
    const std::int64_t width = q.shape()[3];
    constexpr std::int64_t kMostPlaces = 20'000;  // as those of recurrent networks, they are unrolled
    if (length > kMostPlaces) {
      throw Unsupported(fmt::format("{} places; the engine unrolls up to {}", length, kMostPlaces));
    }
    const Shape state_shape{batch, r.states, width, v.shape()[3]};
    const Tensor past = optional_input(in, 3);
    if (k.shape() != Shape{batch, r.states, length, width} || v.shape()[2] != length ||
        (past.defined() && past.shape() != state_shape)) {
      throw ShapeError(fmt::format("{}, {} and {}", to_string(in[0].tensor.type()), to_string(in[1].tensor.type()),
                                   to_string(in[2].tensor.type())));
    }
    Tensor state = past.defined() ? cast(past, computed, where) : full(state_shape, 0, computed, where);
    const double scale = r.scale != 0 ? r.scale : 1 / std::sqrt(static_cast<double>(width));
    std::vector<Tensor> places;
    for (std::int64_t t = 0; t < length; ++t) {
      const auto at = [&](const Tensor& x) { return select(x, 2, t, where); };
      if (r.is_gated) {
        state = mul(state, unsqueeze(exp(at(decay), where), 3, where), where);
      }
      const Tensor key = at(k);
      Tensor value = at(v);
      if (r.corrects) {
        const Tensor known = squeeze(matmul(unsqueeze(key, 2, where), state, where), 2, where);
        value = mul(at(beta), sub(value, known, where), where);
      }
      state = add(state, mul(unsqueeze(key, 3, where), unsqueeze(value, 2, where), where), where);
      const Tensor query = reshape(at(q), {batch, r.states, r.heads / r.states, width}, where);
      places.push_back(reshape(matmul(query, state, where), {batch, r.heads * state_shape[3]}, where));
    }
    const Tensor y =
        places.empty() ? full({batch, 0, r.heads * state_shape[3]}, 0, computed, where) : stack(places, 1, where);
    out[0].tensor = cast(times(y, scale, where), type, where);
    if (out.size() > 1) {
      out[1].tensor = cast(state, past.defined() ? past.dtype() : type, where);
    }
  }};
}

}  // namespace

void add_state_space(std::vector<Operator>& all) {
  all.push_back({"CausalConvWithState", 27, kNewestOpset, causal_convolution});
  all.push_back({"LinearAttention", 27, kNewestOpset, linear_attention, "up to 20,000 places, unrolled"});
}

}  // namespace diptych::onnx
