#include "framework/kernels/product_tiles.h"

namespace diptych::kernels {

template void product(const ProductCall<float, ListedOperands<float>>&);
template void product(const ProductCall<double, ListedOperands<double>>&);

}  // namespace diptych::kernels
