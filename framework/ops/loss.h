#pragma once

#include <limits>
#include <optional>

#include "framework/core/tensor.h"

/// Losses. `Reduction::none` keeps one loss per element (or row); mean and sum give a scalar.
namespace diptych {

enum class Reduction : std::uint8_t { none, mean, sum };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  /// In [0, 1]: the share of the target that is spread over all classes.
  double label_smoothing = 0;
  /// Rows with this label are excluded, from the mean too. None by default: then every label must be a class.
  std::optional<std::int64_t> ignore_index;
  /// [C]; the mean is then weighted by the labels' weights.
  Tensor weight;
};

/// logits: float[N, C] or [N, C, d1, ...] (or [C]); labels: integers[N, d1, ...], or probabilities of the logits'
/// shape. -log softmax(logits)[label], or the cross entropy of the probabilities. Throws ShapeError for shapes that
/// don't fit, Error (from the kernel) for a label outside [0, C).
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options = {},
                     Location where = Location::current());

struct NllOptions {
  Reduction reduction = Reduction::mean;
  std::optional<std::int64_t> ignore_index;
  Tensor weight;  ///< [C]
};
/// -log_probabilities[label]; shapes as for cross_entropy with labels.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options = {},
                Location where = Location::current());

// The losses below compare tensors of one shape: broadcasting is refused, because here it is nearly always a mistake.

/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                Location where = Location::current());
/// |input - target|
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
               Location where = Location::current());
/// d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2), with d = input - target. Throws ShapeError unless delta > 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta = 1, Reduction reduction = Reduction::mean,
                  Location where = Location::current());
/// huber_loss / beta with delta = beta; l1_loss if beta is 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta = 1, Reduction reduction = Reduction::mean,
                      Location where = Location::current());

struct BceOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight;      ///< of the losses; broadcasts
  Tensor pos_weight;  ///< of the positive part; broadcasts
};
/// Binary cross entropy of sigmoid(logits) and targets in [0, 1], without overflow: max(x, 0) - x t + log(1 + e^-|x|).
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceOptions& options = {},
                       Location where = Location::current());

}  // namespace diptych
