#include "framework/kernels/product_tiles.h"

namespace diptych::kernels {

template void product(const ProductCall<float, ListedLeft<float>>&);
template void product(const ProductCall<double, ListedLeft<double>>&);

}  // namespace diptych::kernels
