#pragma once

#include <concepts>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "framework/dispatch/call.h"
#include "framework/kernels/loaded.h"

/// Elementwise kernels: one loop body for every op, dtype and instruction set, and the driver that walks broadcast and
/// strided operands. A scalar function is a struct with a static `apply`.
namespace diptych::kernels {

/// A list of scalar functions.
template <class... Fn>
struct Functions {};

namespace detail {

template <class T>
DIPTYCH_INLINE T& at(void* data, std::int64_t index, std::int64_t stride) {
  return *reinterpret_cast<T*>(static_cast<std::byte*>(data) + index * stride);
}

template <class Fn, class Attributes, class... T>
DIPTYCH_INLINE auto call(const Attributes* attributes, T... values) {
  if constexpr (std::is_void_v<Attributes>) {
    (void)attributes;
    return Fn::apply(values...);
  } else {
    return Fn::apply(*attributes, values...);
  }
}

template <class Fn, class Attributes, class... In>
struct Result {
  using type = decltype(call<Fn, Attributes>(static_cast<const Attributes*>(nullptr), std::declval<In>()...));
};

/// Holds attributes by value: values behind a pointer can't be read conditionally, so such loops wouldn't vectorise.
template <class Attributes>
struct Local {
  explicit Local(const Attributes* attributes) : value(*attributes) {}
  const Attributes* get() const { return &value; }
  Attributes value;
};
template <>
struct Local<void> {
  explicit Local(const void* /*attributes*/) {}
  static const void* get() { return nullptr; }
};

/// `Pattern` bit i: input i is one value for the whole loop.
template <unsigned Pattern, class Fn, class Attributes, class Out, class... In, std::size_t... I>
DIPTYCH_INLINE void dense_loop(std::int64_t n, void* const* data, const Attributes* attributes,
                               std::index_sequence<I...> /*indices*/) {
  auto* out = static_cast<Out*>(data[sizeof...(In)]);
  const std::tuple<const Loaded<In>*...> in{static_cast<const Loaded<In>*>(data[I])...};
  const std::tuple<In...> fixed{(((Pattern >> I) & 1U) != 0 ? static_cast<In>(*std::get<I>(in)) : In())...};
  (void)fixed;
  const Local<Attributes> local(attributes);
  // An output may be exactly an input (in place), but never a shifted one: elements don't depend on each other.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = call<Fn, Attributes>(
        local.get(), (((Pattern >> I) & 1U) != 0 ? std::get<I>(fixed) : static_cast<In>(std::get<I>(in)[i]))...);
  }
}

/// GCC 12 makes scalars of a loop with a select whose condition is the same for all elements, as one on a fixed operand
/// is. Functions that have such selects say `kFixedInBlocks`: they have no such loops, so the value is copied to a
/// block.
template <class Fn>
constexpr bool fixed_in_blocks() {
  if constexpr (requires { Fn::kFixedInBlocks; }) {
    return Fn::kFixedInBlocks;
  } else {
    return false;
  }
}

/// Whether there is a loop for `inputs` dense operands in which those with a bit in `pattern` are a single value.
constexpr bool has_loop(std::size_t inputs, unsigned pattern) {
  return pattern == 0 || (inputs == 2 && pattern != 3) ||
         (inputs == 3 && (pattern == 2 || pattern == 4));  // where() with one fixed branch
}

/// The last two axes of an elementwise call; strides in bytes, inputs first.
struct Plane {
  std::int64_t rows, columns;
  const std::int64_t* row_strides;
  const std::int64_t* strides;
};
/// Runs `loop` on dense blocks, to and from which strided operands are copied; `sizes`: those of the elements. This is
/// the only place that handles strides, so the loops of ops are dense.
void run_in_blocks(LoopFn loop, int inputs, const std::int64_t* sizes, const Plane& plane, void* const* data,
                   const void* attributes);
/// One row with arbitrary strides, for loops that don't support them.
inline void run_in_blocks(LoopFn loop, int inputs, const std::int64_t* sizes, std::int64_t n, void* const* data,
                          const std::int64_t* strides, const void* attributes) {
  const std::int64_t no_strides[kMaxElementwiseInputs + 1] = {};
  run_in_blocks(loop, inputs, sizes, {1, n, no_strides, strides}, data, attributes);
}

template <class Fn, class Attributes, class... In>
struct LoopBody {
  using Out = typename Result<Fn, Attributes, In...>::type;
  static constexpr std::size_t kInputs = sizeof...(In);
  static constexpr std::int64_t kSizes[] = {static_cast<std::int64_t>(sizeof(In))..., sizeof(Out)};
  static constexpr bool kFixedInBlocks = fixed_in_blocks<Fn>() && !(std::is_integral_v<In> && ...);

  /// Bit i: input i is one value for the whole loop. -1 if there is no loop for these strides.
  DIPTYCH_INLINE static int pattern_of(const std::int64_t* strides) {
    unsigned pattern = 0;
    bool dense = strides[kInputs] == kSizes[kInputs];
    for (std::size_t i = 0; i < kInputs; ++i) {
      pattern |= static_cast<unsigned>(strides[i] == 0) << i;
      dense = dense && (strides[i] == 0 || strides[i] == kSizes[i]);
    }
    const bool exists = has_loop(kInputs, pattern) && (pattern == 0 || !kFixedInBlocks);
    return dense && exists ? static_cast<int>(pattern) : -1;
  }

  DIPTYCH_INLINE static void run_dense(int pattern, std::int64_t n, void* const* data, const void* attributes) {
    const auto* mine = static_cast<const Attributes*>(attributes);
    constexpr std::index_sequence_for<In...> indices;
    if (pattern == 0) {
      return dense_loop<0, Fn, Attributes, Out, In...>(n, data, mine, indices);
    }
    if constexpr (kInputs == 2 && !kFixedInBlocks) {
      return pattern == 1 ? dense_loop<1, Fn, Attributes, Out, In...>(n, data, mine, indices)
                          : dense_loop<2, Fn, Attributes, Out, In...>(n, data, mine, indices);
    }
    if constexpr (kInputs == 3) {
      return pattern == 2 ? dense_loop<2, Fn, Attributes, Out, In...>(n, data, mine, indices)
                          : dense_loop<4, Fn, Attributes, Out, In...>(n, data, mine, indices);
    }
  }

  DIPTYCH_INLINE static void run(std::int64_t n, void* const* data, const std::int64_t* strides,
                                 const void* attributes) {
    const int pattern = pattern_of(strides);
    if (pattern < 0) {
      return run_in_blocks(PerIsa<LoopBody>::active(), kInputs, kSizes, n, data, strides, attributes);
    }
    run_dense(pattern, n, data, attributes);
  }
};

/// A function with a rare slow case has a branch-free `Fn::Common`, which gives the same bits as `Fn` itself where
/// `Fn::is_common(values...)` holds. Blocks without a rare element then run vectorised.
template <class Fn>
concept HasCommonCase = requires {
  typename Fn::Common;
};

template <class Fn, class Attributes, class... In>
struct GuardedLoopBody {
  template <std::size_t... I>
  DIPTYCH_INLINE static bool all_common(std::int64_t n, void* const* data, const std::int64_t* strides,
                                        std::index_sequence<I...> /*indices*/) {
    unsigned rare = 0;
    if (((strides[I] == static_cast<std::int64_t>(sizeof(In))) && ...)) {
      for (std::int64_t i = 0; i < n; ++i) {
        rare |= static_cast<unsigned>(!Fn::is_common(static_cast<const In*>(data[I])[i]...));
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        rare |= static_cast<unsigned>(!Fn::is_common(at<const In>(data[I], i, strides[I])...));
      }
    }
    return rare == 0;
  }

  DIPTYCH_INLINE static void run(std::int64_t n, void* const* data, const std::int64_t* strides,
                                 const void* attributes) {
    constexpr std::int64_t kBlock = 512;  // fits the L1 cache together with its result
    using Exact = LoopBody<Fn, Attributes, In...>;
    const int pattern = Exact::pattern_of(strides);
    if (pattern < 0) {
      return run_in_blocks(PerIsa<GuardedLoopBody>::active(), sizeof...(In), Exact::kSizes, n, data, strides,
                           attributes);
    }
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      const std::int64_t count = begin + kBlock < n ? kBlock : n - begin;
      void* block[sizeof...(In) + 1];
      for (std::size_t k = 0; k <= sizeof...(In); ++k) {
        block[k] = static_cast<std::byte*>(data[k]) + begin * strides[k];
      }
      if (all_common(count, block, strides, std::index_sequence_for<In...>())) {
        LoopBody<typename Fn::Common, Attributes, In...>::run_dense(pattern, count, block, attributes);
      } else {
        Exact::run_dense(pattern, count, block, attributes);
      }
    }
  }
};

/// A function of two inputs, equal to a shorter one of the first for some values of the second: those of `Fn::Short`, a
/// list of functions with such a value each (kSecond). `Fn::Long` has the bits of `Fn` unless
/// `Fn::may_be_short(second)`. Types for which a function isn't meant, as integers for a root, are left out
/// (kOnlyFloats).
template <class Fn>
concept HasShortCases = requires {
  typename Fn::Short;
};

template <class Fn, class T>
struct ShortCasesLoopBody {
  using Exact = LoopBody<Fn, void, T, T>;
  using Long = LoopBody<typename Fn::Long, void, T, T>;

  template <class Short>
  DIPTYCH_INLINE static bool run_if(T second, std::int64_t n, void* const* data) {
    if constexpr (!(std::is_integral_v<T> && Short::kOnlyFloats)) {
      if (static_cast<double>(second) == Short::kSecond) {
        void* const operands[] = {data[0], data[2]};
        LoopBody<typename Fn::template Shortened<Short>, void, T>::run_dense(0, n, operands, nullptr);
        return true;
      }
    }
    return false;
  }
  /// Writes the results of those elements that `Short` is meant for over those of `Fn::Long`.
  template <class Short>
  DIPTYCH_INLINE static void replace(const T* first, const T* second, std::int64_t n, T* results) {
    const T value = static_cast<T>(static_cast<float>(Short::kSecond));
    unsigned any = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      any |= static_cast<unsigned>(second[i] == value);
    }
    if (any != 0) {
      for (std::int64_t i = 0; i < n; ++i) {
        const T shorter = Fn::template Shortened<Short>::apply(first[i]);
        results[i] = second[i] == value ? shorter : results[i];
      }
    }
  }
  template <class... Short>
  DIPTYCH_INLINE static void run_mixed(std::int64_t n, void* const* data, T* results, Functions<Short...> /*list*/) {
    void* const operands[] = {data[0], data[1], results};
    Long::run_dense(0, n, operands, nullptr);
    (replace<Short>(static_cast<const T*>(data[0]), static_cast<const T*>(data[1]), n, results), ...);
    for (std::int64_t i = 0; i < n; ++i) {
      static_cast<T*>(data[2])[i] = results[i];
    }
  }
  template <class... Short>
  DIPTYCH_INLINE static bool run_short(T second, std::int64_t n, void* const* data, Functions<Short...> /*list*/) {
    return (run_if<Short>(second, n, data) || ...);
  }

  DIPTYCH_INLINE static void run(std::int64_t n, void* const* data, const std::int64_t* strides,
                                 const void* attributes) {
    if (n > 0 && strides[0] == sizeof(T) && strides[1] == 0 && strides[2] == sizeof(T)) {
      if (!run_short(*static_cast<const T*>(data[1]), n, data, typename Fn::Short())) {
        Long::run(n, data, strides, attributes);
      }
      return;
    }
    if constexpr (std::is_integral_v<T>) {
      return Exact::run(n, data, strides, attributes);
    }
    if (Exact::pattern_of(strides) != 0) {
      return run_in_blocks(PerIsa<ShortCasesLoopBody>::active(), 2, Exact::kSizes, n, data, strides, attributes);
    }
    constexpr std::int64_t kBlock = 512;
    T results[kBlock];  // an output may lie in an input's place
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      const std::int64_t count = begin + kBlock < n ? kBlock : n - begin;
      void* const block[] = {static_cast<T*>(data[0]) + begin, static_cast<T*>(data[1]) + begin,
                             static_cast<T*>(data[2]) + begin};
      const auto* second = static_cast<const T*>(block[1]);
      const T first = second[0];
      unsigned any_short = 0;
      unsigned differ = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        any_short |= static_cast<unsigned>(Fn::may_be_short(second[i]));
        differ |= static_cast<unsigned>(second[i] != first);
      }
      if (any_short == 0) {
        Long::run_dense(0, count, block, nullptr);
      } else if (differ != 0 || !run_short(first, count, block, typename Fn::Short())) {
        run_mixed(count, block, results, typename Fn::Short());
      }
    }
  }
};

/// `Fn` itself and nothing else that it says.
template <class Fn>
struct Plain {
  template <class... T>
  DIPTYCH_INLINE static auto apply(T... values) {
    return Fn::apply(values...);
  }
};

}  // namespace detail

/// A function of floats applied to bfloat16: computed in float, rounded at the end.
template <class Fn>
struct Rounded {
  static constexpr bool kFixedInBlocks = detail::fixed_in_blocks<Fn>() || requires { Fn::kRoundedFixedInBlocks; };
  template <class R>
  DIPTYCH_INLINE static auto round(R value) {
    if constexpr (std::is_same_v<R, float>) {
      return bfloat16(value);
    } else {
      return value;
    }
  }
  template <std::same_as<bfloat16>... T>
  DIPTYCH_INLINE static auto apply(T... values) {
    return round(Fn::apply(static_cast<float>(values)...));
  }
  template <class Attributes, std::same_as<bfloat16>... T>
  requires(!std::same_as<Attributes, bfloat16>) DIPTYCH_INLINE
      static auto apply(const Attributes& attributes, T... values) {
    return round(Fn::apply(attributes, static_cast<float>(values)...));
  }
};
template <detail::HasCommonCase Fn>
struct Rounded<Fn> : Rounded<detail::Plain<Fn>> {
  static constexpr bool kFixedInBlocks = detail::fixed_in_blocks<Fn>();
  using Common = Rounded<typename Fn::Common>;
  template <std::same_as<bfloat16>... T>
  DIPTYCH_INLINE static bool is_common(T... values) {
    return Fn::is_common(static_cast<float>(values)...);
  }
};
template <detail::HasShortCases Fn>
struct Rounded<Fn> : Rounded<detail::Plain<Fn>> {
  static constexpr bool kFixedInBlocks = detail::fixed_in_blocks<Fn>();
  using Short = typename Fn::Short;
  using Long = Rounded<typename Fn::Long>;
  template <class One>
  using Shortened = Rounded<One>;
  DIPTYCH_INLINE static bool may_be_short(bfloat16 second) { return Fn::may_be_short(static_cast<float>(second)); }
};
/// `Fn` itself, or for bfloat16 by way of float.
template <class Fn, class T>
using ForType = std::conditional_t<std::is_same_v<T, bfloat16>, Rounded<Fn>, Fn>;

/// The loops of `Fn` on inputs of types In... for every instruction set.
template <class Fn, class Attributes, class... In>
constexpr LoopSet loop_set() {
  if constexpr (detail::HasCommonCase<Fn> && (!std::is_integral_v<In> && ...)) {
    return PerIsa<detail::GuardedLoopBody<Fn, Attributes, In...>>::for_isa;
  } else if constexpr (detail::HasShortCases<Fn>) {
    return PerIsa<detail::ShortCasesLoopBody<Fn, std::tuple_element_t<0, std::tuple<In...>>>>::for_isa;
  } else {
    return PerIsa<detail::LoopBody<Fn, Attributes, In...>>::for_isa;
  }
}

/// How an elementwise call walks its operands: the inner loop, and the outer axes after merging.
struct ElementwisePlan {
  std::int64_t inner = 0;                                                ///< elements of one inner loop
  bool is_strided = false;                                               ///< the inner loop is not dense
  std::int64_t sizes[kMaxElementwiseInputs + 1] = {};                    ///< bytes per element; inputs, then output
  int outer_rank = 0;                                                    ///< axes outside the inner loop
  std::int64_t outer[kMaxRank] = {};                                     ///< their lengths, outermost first
  std::int64_t inner_strides[kMaxElementwiseInputs + 1] = {};            ///< in bytes; inputs, then output
  std::int64_t outer_strides[kMaxRank][kMaxElementwiseInputs + 1] = {};  ///< in bytes
};

/// Merges neighbouring axes that every operand traverses as one, and drops axes of length 1. `strides`: those of all
/// operands, axis by axis. Returns how many axes are left, which stand at the front of `lengths` and `strides`.
int merge_axes(const Shape& shape, int operands, std::int64_t* lengths, std::int64_t* strides);
/// The strides in bytes of an operand whose elements repeat along the axes of `shape` that it lacks, `apart` from one
/// axis to the next.
void broadcast_strides(const TensorType& type, const Strides& strides, const Shape& shape, std::int64_t* to,
                       std::int64_t apart);

ElementwisePlan plan_elementwise(const KernelCall& call);
void run_elementwise(const ElementwisePlan& plan, LoopFn loop, void* const* data, int operands, const void* attributes);

/// The kernel of every elementwise op.
void elementwise(const KernelCall& call);

/// The inner strides in bytes if one loop over all elements suffices: every input is dense with the output's shape, or
/// a single element. False otherwise.
bool linear_strides(const KernelCall& call, std::int64_t* strides);

}  // namespace diptych::kernels
