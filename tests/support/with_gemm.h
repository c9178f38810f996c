#pragma once

#include "framework/kernels/use_gemm.h"

namespace diptych::testing {

using WithGemm = kernels::UseGemm;

}  // namespace diptych::testing
