#pragma once

#include "framework/kernels/gemm.h"

namespace diptych::testing {

/// Multiplies matrices with `gemm` as long as it lives.
class WithGemm {
 public:
  explicit WithGemm(kernels::Gemm gemm) { kernels::set_gemm(gemm); }
  ~WithGemm() { kernels::set_gemm(before_); }
  WithGemm(const WithGemm&) = delete;
  WithGemm& operator=(const WithGemm&) = delete;

 private:
  kernels::Gemm before_ = kernels::active_gemm();
};

}  // namespace diptych::testing
