#pragma once

#include "framework/core/isa.h"

namespace diptych::testing {

/// Computes with the kernels of `isa`, which the machine must have, as long as it lives.
class WithIsa {
 public:
  explicit WithIsa(Isa isa) { set_isa(isa); }
  ~WithIsa() { set_isa(before_); }
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;

 private:
  Isa before_ = active_isa();
};

}  // namespace diptych::testing
