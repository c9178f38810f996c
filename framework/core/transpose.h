#pragma once

#include <cstddef>
#include <cstdint>

namespace diptych::kernels {

/// out[j * out_pitch + i] = in[i * in_pitch + j] for i < rows, j < columns, for elements of 4 or 8 bytes of any type.
void transpose_elements(std::size_t size, std::int64_t rows, std::int64_t columns, const void* in,
                        std::int64_t in_pitch, void* out, std::int64_t out_pitch);

template <class T>
void transpose_matrix(std::int64_t rows, std::int64_t columns, const T* in, std::int64_t in_pitch, T* out,
                      std::int64_t out_pitch) {
  transpose_elements(sizeof(T), rows, columns, in, in_pitch, out, out_pitch);
}

}  // namespace diptych::kernels
