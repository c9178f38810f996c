#pragma once

#include <fmt/format.h>

#include "framework/core/error.h"

/// Argument checks for the constructors of modules.
namespace diptych::nn::detail {

inline std::int64_t checked_length(const char* module, const char* what, std::int64_t length) {
  if (length < 1) {
    throw Error(fmt::format("{}: {} is {}; it must be at least 1", module, what, length));
  }
  return length;
}

}  // namespace diptych::nn::detail
