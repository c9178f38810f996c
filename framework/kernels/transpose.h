#pragma once

#include <cstdint>

namespace diptych::kernels {

/// out[j * out_pitch + i] = in[i * in_pitch + j] for i < rows, j < columns.
template <class T>
void transpose_matrix(std::int64_t rows, std::int64_t columns, const T* in, std::int64_t in_pitch, T* out,
                      std::int64_t out_pitch);

}  // namespace diptych::kernels
