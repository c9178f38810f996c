#pragma once

#include <type_traits>

#include "framework/core/isa.h"

namespace diptych::kernels {

/// The entry point of the active instruction set for a body that is written for its length of vectors: 16 bytes
/// (generic), 32 (AVX2) or 64 (AVX-512). Each body is built for its own instruction set alone.
template <class Of16, class Of32, class Of64>
auto active_of() {
#if defined(DIPTYCH_ONE_ISA)
  using Of =
      std::conditional_t<DIPTYCH_ONE_VECTOR == 64, Of64, std::conditional_t<DIPTYCH_ONE_VECTOR == 32, Of32, Of16>>;
  return PerIsa<Of>::active();  // the others can't be built for the only instruction set
#else
  switch (active_isa()) {
    case Isa::avx2:
      return PerIsa<Of32>::avx2;
    case Isa::avx512:
      return PerIsa<Of64>::avx512;
    case Isa::generic:
      break;
  }
  return PerIsa<Of16>::generic;
#endif
}

}  // namespace diptych::kernels
