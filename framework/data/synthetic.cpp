#include "framework/data/synthetic.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "framework/math/trigonometry.h"

namespace diptych::data {
namespace {

constexpr std::uint64_t kPatternStream = 0x9E3779B97F4A7C15ULL;  // separate from the stream of examples

void check_at_least(const char* generator, const char* what, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw Error(fmt::format("{}: {} is {}; it must be at least {}", generator, what, value, least));
  }
}

struct Wave {
  double x, y;                ///< radians per pixel
  std::vector<double> color;  ///< amplitude per channel
};

std::vector<Wave> draw_waves(const SyntheticImages& options, std::uint64_t pattern_seed) {
  Rng rng(pattern_seed ^ kPatternStream);
  std::vector<Wave> waves;
  for (std::int64_t c = 0; c < options.classes; ++c) {
    // Directions spread over the half circle, so that no two classes are alike; 2 to 4 periods per image.
    const double angle =
        std::numbers::pi * (static_cast<double>(c) + 0.5 * rng.next_double()) / static_cast<double>(options.classes);
    const double frequency = 2 * std::numbers::pi * (2 + 2 * rng.next_double()) / static_cast<double>(options.size);
    Wave wave{frequency * math::cos(angle), frequency * math::sin(angle), {}};
    for (std::int64_t k = 0; k < options.channels; ++k) {
      wave.color.push_back(rng.next_double() < 0.5 ? -1 : 1);
    }
    waves.push_back(std::move(wave));
  }
  return waves;
}

/// The token after `token`: the first successor with probability 1/2, the second with 1/4, ...
std::int64_t draw_successor(std::span<const std::int64_t> successors, Rng& rng) {
  std::size_t i = 0;
  while (i + 1 < successors.size() && (rng.next_u64() >> 63U) != 0) {
    ++i;
  }
  return successors[i];
}

}  // namespace

Dataset synthetic_images(const SyntheticImages& options, std::uint64_t pattern_seed) {
  check_at_least("synthetic_images", "count", options.count, 0);
  check_at_least("synthetic_images", "channels", options.channels, 1);
  check_at_least("synthetic_images", "size", options.size, 1);
  check_at_least("synthetic_images", "classes", options.classes, 1);
  const std::vector<Wave> waves = draw_waves(options, pattern_seed);
  const std::vector<std::int64_t> order = permutation(options.count, options.seed ^ kPatternStream);
  Rng rng(options.seed);
  Dataset set{Tensor::empty(DType::float32, {options.count, options.channels, options.size, options.size}),
              Tensor::empty(DType::int64, {options.count})};
  auto* pixel = set.inputs.mutable_data<float>();
  auto* label = set.labels.mutable_data<std::int64_t>();
  for (std::int64_t n = 0; n < options.count; ++n) {
    label[n] = order[static_cast<std::size_t>(n)] % options.classes;
    const Wave& wave = waves[static_cast<std::size_t>(label[n])];
    const double phase = 2 * std::numbers::pi * rng.next_double();
    for (const double color : wave.color) {
      for (std::int64_t y = 0; y < options.size; ++y) {
        for (std::int64_t x = 0; x < options.size; ++x) {
          const double angle = phase + wave.x * static_cast<double>(x) + wave.y * static_cast<double>(y);
          *pixel++ = static_cast<float>(color * math::sin(angle) + options.noise * rng.next_normal());
        }
      }
    }
  }
  return set;
}

Dataset synthetic_tokens(const SyntheticTokens& options, std::uint64_t pattern_seed) {
  check_at_least("synthetic_tokens", "count", options.count, 0);
  check_at_least("synthetic_tokens", "length", options.length, 1);
  check_at_least("synthetic_tokens", "successors", options.successors, 1);
  check_at_least("synthetic_tokens", "vocabulary", options.vocabulary, options.successors);
  std::vector<std::vector<std::int64_t>> successors;
  for (std::int64_t token = 0; token < options.vocabulary; ++token) {
    successors.push_back(
        permutation(options.vocabulary, (pattern_seed ^ kPatternStream) + static_cast<std::uint64_t>(token)));
    successors.back().resize(static_cast<std::size_t>(options.successors));
  }
  Rng rng(options.seed);
  Dataset set{Tensor::empty(DType::int64, {options.count, options.length}),
              Tensor::empty(DType::int64, {options.count, options.length})};
  auto* input = set.inputs.mutable_data<std::int64_t>();
  auto* label = set.labels.mutable_data<std::int64_t>();
  for (std::int64_t n = 0; n < options.count; ++n) {
    auto token = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(options.vocabulary)));
    for (std::int64_t i = 0; i < options.length; ++i) {
      *input++ = token;
      token = draw_successor(successors[static_cast<std::size_t>(token)], rng);
      *label++ = token;
    }
  }
  return set;
}

double synthetic_token_entropy(const SyntheticTokens& options) {
  double entropy = 0;
  double probability = 1;
  for (std::int64_t i = 0; i < options.successors; ++i) {
    const bool last = i + 1 == options.successors;
    probability = last ? probability : probability / 2;
    entropy -= probability * std::log(probability);
  }
  return entropy;
}

}  // namespace diptych::data
