#pragma once

#include "framework/core/isa.h"

namespace diptych::kernels {

/// The entry point of a body that is written for vectors of `bytes`, for another such body to call.
template <class Body, int bytes>
constexpr auto entry_of() {
#if defined(DIPTYCH_ONE_ISA)
  return PerIsa<Body>::active();
#else
  if constexpr (bytes == 64) {
    return PerIsa<Body>::avx512;
  } else if constexpr (bytes == 32) {
    return PerIsa<Body>::avx2;
  } else {
    return PerIsa<Body>::generic;
  }
#endif
}

/// The entry point of the active instruction set for a body that is written for its length of vectors in bytes: 16
/// (generic), 32 (AVX2) or 64 (AVX-512). Each body is built for its own instruction set alone.
template <template <int bytes> class Body>
auto active_of() {
#if defined(DIPTYCH_ONE_ISA)
  return PerIsa<Body<DIPTYCH_ONE_VECTOR>>::active();  // the others can't be built for the only instruction set
#else
  switch (active_isa()) {
    case Isa::avx2:
      return PerIsa<Body<32>>::avx2;
    case Isa::avx512:
      return PerIsa<Body<64>>::avx512;
    case Isa::generic:
      break;
  }
  return PerIsa<Body<16>>::generic;
#endif
}

}  // namespace diptych::kernels
