#include "framework/kernels/pair_loops.h"

#include <functional>

#include "framework/core/isa.h"
#include "framework/kernels/elementwise.h"
#include "framework/math/simple_functions.h"

namespace diptych::kernels {
namespace {

using Add = math::Wrapping<std::plus>;
using Sub = math::Wrapping<std::minus>;
using Mul = math::Wrapping<std::multiplies>;
using math::Neg;
using math::Relu;
using math::Square;

template <class Fn>
constexpr int kInputs = std::is_same_v<Fn, Neg> || std::is_same_v<Fn, Relu> || std::is_same_v<Fn, Square> ? 1 : 2;

template <class First, class Second, int place>
struct Both {
  DIPTYCH_INLINE static float apply(float a) { return Second::apply(First::apply(a)); }
  DIPTYCH_INLINE static float apply(float a, float b) {
    if constexpr (kInputs<First> == 2) {
      return Second::apply(First::apply(a, b));
    } else {
      return place == 0 ? Second::apply(First::apply(a), b) : Second::apply(b, First::apply(a));
    }
  }
  DIPTYCH_INLINE static float apply(float a, float b, float c) {
    return place == 0 ? Second::apply(First::apply(a, b), c) : Second::apply(c, First::apply(a, b));
  }
};

template <class Fn, int inputs>
constexpr LoopSet loops() {
  if constexpr (inputs == 1) {
    return loop_set<Fn, void, float>();
  } else if constexpr (inputs == 2) {
    return loop_set<Fn, void, float, float>();
  } else {
    return loop_set<Fn, void, float, float, float>();
  }
}

constexpr int kAnyPlace = -1;

struct Pair {
  LoopSet first, second;
  int place;
  LoopSet both;
};

template <class First, class Second, int place>
constexpr Pair pair() {
  constexpr bool commutes = std::is_same_v<Second, Add> || std::is_same_v<Second, Mul>;
  return {loops<First, kInputs<First>>(), loops<Second, kInputs<Second>>(), commutes ? kAnyPlace : place,
          loops<Both<First, Second, place>, kInputs<First> + kInputs<Second> - 1>()};
}

/// Those in which normalisations, activations, residuals and updates of parameters abound.
constexpr Pair kPairs[] = {
    pair<Add, Add, 0>(),    pair<Add, Mul, 0>(),    pair<Add, Sub, 0>(),  pair<Add, Sub, 1>(),    pair<Add, Relu, 0>(),
    pair<Sub, Add, 0>(),    pair<Sub, Mul, 0>(),    pair<Sub, Relu, 0>(), pair<Sub, Square, 0>(), pair<Mul, Add, 0>(),
    pair<Mul, Mul, 0>(),    pair<Mul, Sub, 0>(),    pair<Mul, Sub, 1>(),  pair<Mul, Neg, 0>(),    pair<Mul, Relu, 0>(),
    pair<Square, Mul, 0>(), pair<Square, Neg, 0>(), pair<Relu, Add, 0>(), pair<Relu, Mul, 0>(),   pair<Neg, Add, 0>(),
    pair<Neg, Mul, 0>(),
};

}  // namespace

LoopFn pair_loop(LoopFn first, LoopFn second, std::size_t place) {
  const auto isa = static_cast<std::size_t>(active_isa());
  for (const Pair& pair : kPairs) {
    if (pair.first[isa] == first && pair.second[isa] == second &&
        (pair.place == kAnyPlace || pair.place == static_cast<int>(place))) {
      return pair.both[isa];
    }
  }
  return nullptr;
}

}  // namespace diptych::kernels
