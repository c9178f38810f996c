#include "framework/kernels/product_tiles.h"

namespace diptych::kernels {

template void product(const ProductCall<float, StridedOperands<float>>&);
template void product(const ProductCall<double, StridedOperands<double>>&);

}  // namespace diptych::kernels
