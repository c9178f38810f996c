#pragma once

#include "framework/core/variable.h"

/// Random tensors and dropout. The numbers depend only on the generator's seed, the number of its earlier draws, and an
/// element's position (row-major): eager, graph, every instruction set and any number of threads give the same ones,
/// and a longer draw begins with the elements of a shorter one. C++ leaves the order of two draws in one expression
/// open: assign the first to a variable.
namespace diptych {

/// A counter-based generator, Philox 4x32-10. Its state is a variable: a graph that draws reads and writes it like any
/// other state, so each replay draws fresh numbers, and saving and assigning the variable saves and restores it. Copies
/// share the state. Two threads must not use one generator at once.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0);

  /// Restarts the sequence.
  void manual_seed(std::uint64_t seed, Location where = Location::current()) const;
  /// i64[2] {seed, number of the next draw}.
  const Variable& state() const { return state_; }
  /// The state for one draw; advances the generator to the next.
  Tensor draw(Location where = Location::current()) const;

 private:
  Variable state_;
};

/// The calling thread's default generator; its seed is 0 until manual_seed().
const Generator& default_generator();
/// Seeds the calling thread's default generator.
void manual_seed(std::uint64_t seed, Location where = Location::current());

// Each throws Error for meaningless parameters (not finite, low above high, a negative deviation, p outside [0, 1]).

/// In [low, high), one of 2^24 values (f32), 2^52 (f64) or 2^8 (bf16).
Tensor uniform(const Shape& shape, double low, double high, DType dtype = DType::float32,
               const Generator& generator = default_generator(), Location where = Location::current());
/// uniform() in [0, 1).
Tensor rand(const Shape& shape, DType dtype = DType::float32, const Generator& generator = default_generator(),
            Location where = Location::current());
Tensor normal(const Shape& shape, double mean, double deviation, DType dtype = DType::float32,
              const Generator& generator = default_generator(), Location where = Location::current());
/// normal() with mean 0 and deviation 1.
Tensor randn(const Shape& shape, DType dtype = DType::float32, const Generator& generator = default_generator(),
             Location where = Location::current());
Tensor rand_like(const Tensor& like, const Generator& generator = default_generator(),
                 Location where = Location::current());
Tensor randn_like(const Tensor& like, const Generator& generator = default_generator(),
                  Location where = Location::current());
/// The normal distribution truncated to low and high (values, not deviations), both included.
Tensor truncated_normal(const Shape& shape, double mean = 0, double deviation = 1, double low = -2, double high = 2,
                        DType dtype = DType::float32, const Generator& generator = default_generator(),
                        Location where = Location::current());
/// Whole numbers in [low, high), of an integer type.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::int64,
               const Generator& generator = default_generator(), Location where = Location::current());
/// 0 ... count - 1 in random order, i64.
Tensor randperm(std::int64_t count, const Generator& generator = default_generator(),
                Location where = Location::current());
/// 1 with probability p, else 0; any type.
Tensor bernoulli(const Shape& shape, double p, DType dtype = DType::float32,
                 const Generator& generator = default_generator(), Location where = Location::current());
/// With one probability per element, and of the same type as p; no gradient flows into p.
Tensor bernoulli(const Tensor& p, const Generator& generator = default_generator(),
                 Location where = Location::current());

/// Inverted dropout [Srivastava et al. 2014]: while training, each element becomes 0 with probability p, even where x
/// is NaN or infinite, and x / (1 - p) otherwise. Draws nothing if it has no effect.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true, const Generator& generator = default_generator(),
               Location where = Location::current());

}  // namespace diptych
