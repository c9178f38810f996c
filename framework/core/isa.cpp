#include "framework/core/isa.h"

#include <cstdlib>

#include <fmt/format.h>

#include "framework/core/error.h"

namespace diptych {

bool is_supported(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  switch (isa) {
    case Isa::generic:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == Isa::generic;
}

void set_isa(Isa isa) {
  if (!is_supported(isa)) {
    throw Error(
        fmt::format("this CPU has no {}; choose a smaller instruction set", kIsaNames[static_cast<std::size_t>(isa)]));
  }
  detail::active_isa = isa;
}

namespace detail {
Isa initial_isa() {
  const char* wanted = std::getenv("DIPTYCH_ISA");
  Isa best = Isa::generic;
  for (int i = 0; i < kIsaCount; ++i) {
    const auto isa = static_cast<Isa>(i);
    if (!is_supported(isa)) {
      break;
    }
    best = isa;
    if (wanted != nullptr && kIsaNames[static_cast<std::size_t>(i)] == wanted) {
      break;  // an unknown or unsupported name selects the best; `diptych doctor` shows the one in use
    }
  }
  return best;
}
}  // namespace detail

}  // namespace diptych
