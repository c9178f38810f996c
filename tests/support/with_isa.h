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

/// Calls `fn(isa)` with the kernels of each instruction set that the machine has.
template <class Fn>
void for_each_isa(const Fn& fn) {
  for (int i = 0; i < kIsaCount && is_supported(static_cast<Isa>(i)); ++i) {
    const WithIsa with(static_cast<Isa>(i));
    fn(static_cast<Isa>(i));
  }
}

}  // namespace diptych::testing
