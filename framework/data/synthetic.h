#pragma once

#include "framework/data/dataset.h"

/// Data generated from a seed: as much as a benchmark needs, and with something to learn.
namespace diptych::data {

struct SyntheticImages {
  std::int64_t count = 1024;
  std::int64_t channels = 3;
  std::int64_t size = 32;  ///< height and width
  std::int64_t classes = 10;
  double noise = 0.5;  ///< standard deviation; the patterns have amplitude 1
  std::uint64_t seed = 1;
};

/// inputs: f32[count, channels, size, size], labels: i64[count], every class equally often, in a seeded order. Each
/// class is a wave with a direction, length and colour of its own; the phase differs between images, so that no single
/// pixel reveals the class. Two sets with the same `pattern_seed` have the same classes.
Dataset synthetic_images(const SyntheticImages& options, std::uint64_t pattern_seed = 0);

struct SyntheticTokens {
  std::int64_t count = 1024;
  std::int64_t length = 64;
  std::int64_t vocabulary = 64;
  std::int64_t successors = 4;  ///< tokens that may follow a token
  std::uint64_t seed = 1;
};

/// inputs: i64[count, length], labels: i64[count, length]: the token that follows each input. A Markov chain: each
/// token has `successors` possible next tokens with probabilities 1/2, 1/4, ..., the last two equal. The best possible
/// cross-entropy is therefore synthetic_token_entropy(), against log(vocabulary) for guessing.
Dataset synthetic_tokens(const SyntheticTokens& options, std::uint64_t pattern_seed = 0);
/// In nats per token.
double synthetic_token_entropy(const SyntheticTokens& options);

}  // namespace diptych::data
