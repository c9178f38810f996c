#include <algorithm>

#include "framework/kernels/correlation_ways.h"

namespace diptych::kernels {

template <class T>
bool is_pointwise(const Correlation<T>& c) {
  return c.taps() == 1 && c.channels > 0 && is_plane(c.rows, c.columns) && c.in_plane.size() == 1 &&
         c.result_column_step == 1 && c.result_row_step == c.columns.output;
}

template <class T>
void correlate_in_place(const Correlation<T>& c) {
  const std::int64_t positions = c.rows.output * c.columns.output;
  const T* const first_row = c.source - c.rows.before * c.columns.input;
  const Matrix<T> weights{c.weights + c.tap_offsets[0], c.outputs, c.channels, c.output_step, c.channel_step};
  for (std::int64_t image = 0; image < c.batch; ++image) {
    const Matrix<T> planes{first_row + image * c.image_step, c.channels, positions, c.plane_step, 1};
    const Result<T> result{c.result + image * c.result_image_step + c.place_of(0), c.result_plane_step, c.epilogue,
                           c.epilogue_row + image * c.epilogue_rows_of_image, c.epilogue_column};
    if (c.bias == nullptr) {
      multiply(weights, planes, result);
      continue;
    }
    for (std::int64_t output = 0; output < c.outputs; ++output) {
      std::fill_n(result.data + output * result.pitch, positions, c.bias[output]);
    }
    add_product_to(weights, planes, result);
  }
}

template bool is_pointwise(const Correlation<float>&);
template bool is_pointwise(const Correlation<double>&);
template void correlate_in_place(const Correlation<float>&);
template void correlate_in_place(const Correlation<double>&);

}  // namespace diptych::kernels
