#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "framework/math/inline.h"

namespace diptych {

/// The instruction sets for which every kernel is built. All give the same bits (docs/numerics.md).
enum class Isa : unsigned char { generic, avx2, avx512 };

inline constexpr int kIsaCount = 3;
inline constexpr std::array<std::string_view, kIsaCount> kIsaNames = {"generic", "avx2", "avx512"};

namespace detail {
Isa initial_isa();
inline Isa active_isa = initial_isa();
}  // namespace detail

/// The best instruction set of this CPU, or the one named by the environment variable DIPTYCH_ISA.
inline Isa active_isa() { return detail::active_isa; }
bool is_supported(Isa isa);
/// For tests and comparisons; throws Error if the CPU lacks it. Must not be called while ops run on other threads.
void set_isa(Isa isa);

#if defined(__x86_64__)
#define DIPTYCH_TARGET_AVX2 [[gnu::target("avx,avx2,fma,bmi,bmi2")]]
#define DIPTYCH_TARGET_AVX512 [[gnu::target("avx,avx2,fma,bmi,bmi2,avx512f,avx512dq,avx512bw,avx512vl")]]
#else
#define DIPTYCH_TARGET_AVX2
#define DIPTYCH_TARGET_AVX512
#endif

#if defined(DIPTYCH_ONE_ISA)
#define DIPTYCH_TARGET_ONE DIPTYCH_ONE_ISA
#endif

/// Builds `Body::run(arguments...)` for every instruction set; `for_isa[i]` are the entry points.
template <class Body, class Signature = decltype(Body::run)>
struct PerIsa;

template <class Body, class... Arguments>
struct PerIsa<Body, void(Arguments...)> {
  using Function = void (*)(Arguments...);
#if defined(DIPTYCH_ONE_ISA)
  // Sanitizer builds use the instruction set of the build machine for all three entry points, because with sanitizers
  // each instruction set costs as much as all three without.
  DIPTYCH_TARGET_ONE static void only(Arguments... arguments) { Body::run(arguments...); }
  static constexpr Function generic = only, avx2 = only, avx512 = only;
#else
  static void generic(Arguments... arguments) { Body::run(arguments...); }
  DIPTYCH_TARGET_AVX2 static void avx2(Arguments... arguments) { Body::run(arguments...); }
  DIPTYCH_TARGET_AVX512 static void avx512(Arguments... arguments) { Body::run(arguments...); }
#endif

  static constexpr std::array<Function, kIsaCount> for_isa = {generic, avx2, avx512};
  static Function active() { return for_isa[static_cast<std::size_t>(active_isa())]; }
};

}  // namespace diptych
