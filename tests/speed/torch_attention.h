#pragma once

#include <cstdint>

/// libtorch on products and attention, behind an interface without its headers. One thread. Each builds its inputs,
/// runs the case once, then gives the seconds of `iterations` runs. `gradients`: forward and backward by all inputs,
/// else without a tape.
namespace diptych::torch_reference {

/// [batch, m, k] x [batch, k, n]; batch 0: matrices.
double matmul_seconds(std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n, bool gradients,
                      int iterations);
/// [batch, rows, in] through a layer of `out`, with bias.
double linear_seconds(std::int64_t batch, std::int64_t rows, std::int64_t in, std::int64_t out, bool gradients,
                      int iterations);
/// q, k and v of [1, heads, length, 64]; `whole`: by libtorch's own function, else written out.
double attention_seconds(std::int64_t heads, std::int64_t length, bool is_causal, bool whole, bool gradients,
                         int iterations);
/// The attention block of a transformer on [2, 196, 256] with 8 heads: projection to q, k, v, attention, projection.
double attention_block_seconds(bool gradients, int iterations);

}  // namespace diptych::torch_reference
