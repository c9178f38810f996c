#pragma once

#include <type_traits>

namespace diptych::kernels {

/// What an element of T is loaded as: GCC 12 makes scalars of loops that load bool, which take five times as long.
template <class T>
using Loaded = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;

}  // namespace diptych::kernels
