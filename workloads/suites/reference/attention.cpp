// Attention written out with matmul and softmax, with the shape of each step and the gradient of the input; then the
// same with scaled_dot_product_attention.

#include <cmath>

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

namespace {

constexpr std::int64_t kBatch = 2, kLength = 16, kWidth = 32, kHeads = 4, kHeadWidth = kWidth / kHeads;

/// The host knows shapes in both modes. Inside a captured function, this prints at the capture and not again.
const Tensor& show(const char* step, const Tensor& x) {
  fmt::print("  {:<38}{}\n", step, to_string(x.type()));
  return x;
}

Tensor by_hand(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores =
      show("scores = q k^T / sqrt(head width)", matmul(q, transpose(k)) / std::sqrt(static_cast<double>(kHeadWidth)));
  const Tensor weights = show("weights = softmax(scores)", softmax(scores));
  return show("mixed = weights v", matmul(weights, v));
}

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

}  // namespace

int main() {
  Rng rng(1);
  nn::Linear qkv(kWidth, 3 * kWidth, rng);
  nn::Linear output(kWidth, kWidth, rng);
  const Tensor x = rng.normal({kBatch, kLength, kWidth});
  const Tensor target = rng.normal({kBatch, kLength, kWidth});

  // A loss around either form of attention; value_and_grad gives the loss and its gradient with respect to x.
  auto loss_with = [&](auto attention) {
    return value_and_grad([&, attention](const Tensor& input) {
      const Tensor heads = reshape(qkv(input), {kBatch, kLength, 3, kHeads, kHeadWidth});
      const std::vector<Tensor> parts = unbind(permute(heads, {2, 0, 3, 1, 4}));  // each [batch, head, length, width]
      const Tensor mixed = attention(parts[0], parts[1], parts[2]);
      return mse_loss(output(reshape(transpose(mixed, 1, 2), {kBatch, kLength, kWidth})), target);
    });
  };

  fmt::print("written out\n");
  show("x", x);
  const auto written = loss_with(by_hand)(x);
  show("gradient by x", written.arguments[0]);
  fmt::print("  loss {:.6f}\n", written.value.item());

  const auto op = loss_with(
      [](const Tensor& q, const Tensor& k, const Tensor& v) { return scaled_dot_product_attention(q, k, v); })(x);
  fmt::print("scaled_dot_product_attention\n  loss {:.6f}\n", op.value.item());

  // Both compute the same in exact arithmetic; in f32 the order of roundings differs.
  const double value = largest_difference(written.value, op.value);
  const double gradient = largest_difference(written.arguments[0], op.arguments[0]);
  const bool agree = value < 1e-6 && gradient < 1e-6;
  fmt::print("largest difference: loss {:.1e}, gradient {:.1e}\nagree to 1e-6: {}\n", value, gradient,
             agree ? "yes" : "no");
  return agree ? 0 : 1;
}
