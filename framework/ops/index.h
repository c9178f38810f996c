#pragma once

#include <fmt/format.h>

#include "framework/dispatch/element_error.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/lines.h"

/// Shared by the files whose ops read indices.
namespace diptych::ops {

inline void check_indices(const InferCall& call, int input) {
  if (call.input(input).dtype != DType::int64) {
    call.fail_dtype("the indices are not i64", "cast them");
  }
}

/// `op`: its name.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_index(const char* op, std::int64_t index, std::int64_t position,
                                                              std::int64_t length) {
  throw ElementError(fmt::format("{}: index {} at position {} is outside [0, {})", op, index, position, length),
                     index < 0 ? "negative indices don't count from the end here: add the length to them"
                               : "check the indices, or make the axis longer");
}

/// Throws for the first of `count` indices outside [0, length).
inline void check_range(const OpDef& op, const std::int64_t* indices, std::int64_t count, std::int64_t length) {
  std::uint64_t greatest = 0;  // negative indices wrap to huge values here
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(indices[i]);
    greatest = index > greatest ? index : greatest;
  }
  if (count == 0 || greatest < static_cast<std::uint64_t>(length)) {
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (static_cast<std::uint64_t>(indices[i]) >= static_cast<std::uint64_t>(length)) {
      fail_index(op.name, indices[i], i, length);
    }
  }
}

/// Casts integers of any type to i64; other types are passed on to the op, which refuses them.
inline Tensor as_indices(const Tensor& indices, Location where) {
  return indices.defined() && is_integral(indices.dtype()) ? cast(indices, DType::int64, where) : indices;
}

}  // namespace diptych::ops
