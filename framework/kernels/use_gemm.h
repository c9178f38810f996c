#pragma once

#include "framework/kernels/gemm.h"

namespace diptych::kernels {

/// As long as it lives, `gemm` multiplies matrices; afterwards what did before. As set_gemm(), not while ops run on
/// other threads.
class UseGemm {
 public:
  explicit UseGemm(Gemm gemm) { set_gemm(gemm); }
  ~UseGemm() { set_gemm(before_); }
  UseGemm(const UseGemm&) = delete;
  UseGemm& operator=(const UseGemm&) = delete;

 private:
  Gemm before_ = active_gemm();
};

}  // namespace diptych::kernels
