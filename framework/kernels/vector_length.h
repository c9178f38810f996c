#pragma once

#include "framework/core/isa.h"

namespace diptych::kernels {

/// The entry point of the active instruction set for a body that is written for its length of vectors: 16 bytes
/// (generic), 32 (AVX2) or 64 (AVX-512). Each body is built for its own instruction set alone.
template <class Of16, class Of32, class Of64>
auto active_of() {
  switch (active_isa()) {
    case Isa::avx2:
      return PerIsa<Of32>::avx2;
    case Isa::avx512:
      return PerIsa<Of64>::avx512;
    case Isa::generic:
      break;
  }
  return PerIsa<Of16>::generic;
}

}  // namespace diptych::kernels
