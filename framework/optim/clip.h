#pragma once

#include <vector>

#include "framework/core/tensor.h"

namespace diptych::optim {

struct ClippedGradients {
  std::vector<Tensor> gradients;
  Tensor norm;  ///< the norm of all gradients as one vector, before clipping; a scalar
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), like torch.nn.utils.clip_grad_norm_. `norm_type`: p of the
/// p-norm, 1, 2 or infinity. A NaN or infinite norm makes the gradients NaN or 0: test it if that may happen. Throws
/// Error for other types and for a max_norm that is not positive.
ClippedGradients clip_grad_norm(std::span<const Tensor> gradients, double max_norm, double norm_type = 2,
                                Location where = Location::current());

/// Clips every element to [-limit, limit]; NaN stays.
std::vector<Tensor> clip_grad_value(std::span<const Tensor> gradients, double limit,
                                    Location where = Location::current());

}  // namespace diptych::optim
