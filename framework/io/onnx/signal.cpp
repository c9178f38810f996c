// Signals: Fourier transforms as products with constant matrices, windows, mel filters.

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "framework/io/onnx/operators.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/indexing.h"
#include "framework/ops/matmul.h"
#include "framework/ops/shape.h"
#include "framework/ops/view.h"

namespace diptych::onnx {
namespace {

/// The matrix of a transform has the square of its length.
constexpr std::int64_t kLongestTransform = 8192;
constexpr std::int64_t kLongestWindow = std::int64_t{1} << 30;

/// cos and sin of 2 pi j k / n for rows j and columns k.
struct Waves {
  Tensor cosine;
  Tensor sine;
};

Waves waves(std::int64_t n, std::int64_t columns, DType dtype, Location where) {
  if (n < 1 || n > kLongestTransform) {
    throw Unsupported(fmt::format("a transform of {} elements; the engine has 1 to {}", n, kLongestTransform));
  }
  checked_shape(std::vector{n, columns}, DType::float64);
  std::vector<double> cosine;
  std::vector<double> sine;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t k = 0; k < columns; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
  const KnownScope scope(true);
  const Shape shape{n, columns};
  return {cast(Tensor::from(cosine, shape), dtype, where), cast(Tensor::from(sine, shape), dtype, where)};
}

struct Transform {
  bool inverse = false;
  bool onesided = false;
};

/// The transform of signal[..., n, 1 or 2] along its last axis but one: [..., bins, 2].
Tensor transformed(const Tensor& signal, const Transform& transform, Location where) {
  const int last = signal.rank() - 1;
  const std::int64_t n = signal.shape()[last - 1];
  const Waves w = waves(n, transform.onesided ? n / 2 + 1 : n, signal.dtype(), where);
  const Tensor real = select(signal, last, 0, where);
  // x (cos - i sin), the inverse x (cos + i sin) / n
  Tensor re = matmul(real, w.cosine, where);
  Tensor im = matmul(real, transform.inverse ? w.sine : neg(w.sine, where), where);
  if (signal.shape()[last] == 2) {
    const Tensor imaginary = select(signal, last, 1, where);
    const Tensor crossed = matmul(imaginary, w.sine, where);
    re = transform.inverse ? sub(re, crossed, where) : add(re, crossed, where);
    im = add(im, matmul(imaginary, w.cosine, where), where);
  }
  Tensor y = stack({re, im}, last, where);
  return transform.inverse ? div(y, scalar_like(y, static_cast<double>(n), where), where) : y;
}

/// The real signal of n elements whose one-sided transform is spectrum[..., bins, 1 or 2]: [..., n, 1]. The other bins
/// are the conjugates of these; of bin 0, and of the middle one of an even n, only the real parts count.
Tensor real_signal(const Tensor& spectrum, std::int64_t n, Location where) {
  const int last = spectrum.rank() - 1;
  const std::int64_t bins = spectrum.shape()[last - 1];
  const Waves w = waves(n, bins, spectrum.dtype(), where);
  std::vector<double> shares;
  std::vector<double> crossed_shares;
  for (std::int64_t k = 0; k < bins; ++k) {
    const bool is_own_conjugate = k == 0 || 2 * k == n;
    shares.push_back((is_own_conjugate ? 1.0 : 2.0) / static_cast<double>(n));
    crossed_shares.push_back(is_own_conjugate ? 0 : shares.back());
  }
  const auto weighted = [&](const Tensor& part, const std::vector<double>& weights, const Tensor& wave) {
    const Tensor weight = cast(Tensor::from(weights, {bins}), spectrum.dtype(), where);
    return matmul(mul(part, weight, where), transpose(wave, 0, 1, where), where);
  };
  Tensor y = weighted(select(spectrum, last, 0, where), shares, w.cosine);
  if (spectrum.shape()[last] == 2) {
    y = sub(y, weighted(select(spectrum, last, 1, where), crossed_shares, w.sine), where);
  }
  return unsqueeze(y, last, where);
}

void check_signal(const Tensor& x) {
  if (x.rank() < 2 || (x.shape().back() != 1 && x.shape().back() != 2) || !is_floating(x.dtype())) {
    throw ShapeError(fmt::format("{} is no signal: its last axis has the real part, or the real and imaginary ones",
                                 to_string(x.type())));
  }
}

/// Cut, or with zeros behind, to a length along one axis.
Tensor to_length(const Tensor& x, int axis, std::int64_t length, Location where) {
  if (length < x.shape()[axis]) {
    return slice(x, axis, 0, length, 1, where);
  }
  std::vector<PadWidth> widths(static_cast<std::size_t>(x.rank()));
  widths[static_cast<std::size_t>(axis)].after = length - x.shape()[axis];
  return widths[static_cast<std::size_t>(axis)].after == 0 ? x : pad(x, widths, PadMode::constant, 0, where);
}

/// The axis is an attribute before opset 20, an input from there on.
Translation fourier(NodeView& node) {
  const Transform transform{node.integer("inverse", 0) != 0, node.integer("onesided", 0) != 0};
  const bool axis_is_input = node.opset() >= 20;
  const std::int64_t fixed_axis = axis_is_input ? -2 : node.integer("axis", 1);
  node.check_inputs(1, axis_is_input ? 3 : 2);
  return {[=](Inputs in, Outputs out, Location where) {
            const Tensor& x = in[0].tensor;
            check_signal(x);
            const Tensor axis_input = optional_input(in, 2);
            const int axis = axis_of(axis_input.defined() ? host_integer(axis_input) : fixed_axis, x.rank());
            if (axis == x.rank() - 1) {
              throw ShapeError("a transform of the axis of real and imaginary parts");
            }
            const bool is_half = transform.inverse && transform.onesided;
            const std::int64_t length = optional_input(in, 1).defined() ? host_integer(in[1].tensor)
                                        : is_half                       ? 2 * (x.shape()[axis] - 1)
                                                                        : x.shape()[axis];
            if (length < 1 || length > kLongestTransform) {
              throw Unsupported(
                  fmt::format("a transform of {} elements; the engine has 1 to {}", length, kLongestTransform));
            }
            const int inner = x.rank() - 2;
            const Tensor turned =
                transpose(to_length(x, axis, is_half ? length / 2 + 1 : length, where), axis, inner, where);
            const Tensor y = is_half ? real_signal(turned, length, where) : transformed(turned, transform, where);
            out[0].tensor = transpose(y, axis, inner, where);
          },
          {1, 2}};
}

/// signal[B, L, 1 or 2], step, window, length of a frame -> [B, frames, bins, 2]
Translation short_time_fourier(NodeView& node) {
  const Transform transform{false, node.integer("onesided", 1) != 0};
  node.check_inputs(2, 4);
  return {
      [=](Inputs in, Outputs out, Location where) {
        const Tensor& x = in[0].tensor;
        check_signal(x);
        const Tensor window = optional_input(in, 2);
        const std::int64_t step = host_integer(in[1].tensor);
        const std::int64_t length = optional_input(in, 3).defined() ? host_integer(in[3].tensor)
                                    : window.defined()              ? window.numel()
                                                                    : 0;
        if (x.rank() != 3 || step < 1 || length < 1 || length > x.shape()[1] ||
            (window.defined() && window.shape() != Shape{length})) {
          throw ShapeError(fmt::format("frames of {} elements, {} apart, of {}", length, step, to_string(x.type())));
        }
        const std::int64_t frames = (x.shape()[1] - length) / step + 1;
        checked_shape(std::vector{x.shape()[0], frames, length, x.shape()[2]}, x.dtype());
        checked_shape(std::vector{frames, length}, DType::int64);
        const auto numbers = [&](std::int64_t count, std::int64_t distance) {
          return arange(0, static_cast<double>(count * distance), static_cast<double>(distance), DType::int64, where);
        };
        const Tensor places = add(reshape(numbers(frames, step), {frames, 1}, where), numbers(length, 1), where);
        Tensor pieces = index_select(x, 1, places, where);  // [B, frames, length, 1 or 2]
        if (window.defined()) {
          pieces = mul(pieces, reshape(window, {length, 1}, where), where);
        }
        out[0].tensor = transformed(pieces, transform, where);
      },
      {1, 3}};
}

DType output_type(NodeView& node) {
  const std::int64_t code = node.integer("output_datatype", 1);
  const auto dtype = dtype_of_code(code);
  if (!dtype) {
    node.refuse(fmt::format("the engine has no {} tensors", name_of_type(code)));
  }
  return *dtype;
}

/// a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N), where N is the length, or one less for a symmetric window.
template <int a0, int a1, int a2, int denominator>
Translation window(NodeView& node) {
  const bool periodic = node.integer("periodic", 1) != 0;
  const DType dtype = output_type(node);
  node.check_inputs(1, 1);
  return {[=](Inputs in, Outputs out, Location where) {
            const std::int64_t length = host_integer(in[0].tensor);
            if (length < 0 || length > kLongestWindow) {
              throw ShapeError(fmt::format("a window of {} elements", length));
            }
            checked_shape(std::vector{length}, DType::float64);
            const double turn = static_cast<double>(std::max<std::int64_t>(periodic ? length : length - 1, 1));
            std::vector<double> values;
            for (std::int64_t i = 0; i < length; ++i) {
              const double angle = 2 * std::numbers::pi * static_cast<double>(i) / turn;
              values.push_back((a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)) / denominator);
            }
            out[0].tensor = cast(Tensor::from(values, {length}), dtype, where);
          },
          {0}};
}

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

/// Triangles over the bins of a spectrum, their corners equally spaced in mel; the specification's own formula.
Translation mel_weights(NodeView& node) {
  const DType dtype = output_type(node);
  node.check_inputs(5, 5);
  return {[=](Inputs in, Outputs out, Location where) {
            const std::int64_t filters = host_integer(in[0].tensor);
            const std::int64_t length = host_integer(in[1].tensor);
            const std::int64_t rate = host_integer(in[2].tensor);
            const double low = host_real(in[3].tensor);
            const double high = host_real(in[4].tensor);
            if (filters < 1 || length < 1 || rate < 1 || !(low >= 0) || !(high > low) || !(high * 2 <= 1e300) ||
                std::max(filters, length) > kLongestWindow) {
              throw ShapeError(
                  fmt::format("{} filters from {} to {} Hz, of {} samples at {} Hz", filters, low, high, length, rate));
            }
            const std::int64_t bins = length / 2 + 1;
            checked_shape(std::vector{bins, filters}, DType::float64);
            const double step = (mel_of(high) - mel_of(low)) / static_cast<double>(filters + 2);
            const auto corner = [&](std::int64_t i) {
              const double hertz = hertz_of(mel_of(low) + static_cast<double>(i) * step);
              const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
              if (!(bin < static_cast<double>(bins))) {
                throw ShapeError(fmt::format("a filter up to {} Hz: above half of {} Hz", hertz, rate));
              }
              return static_cast<std::int64_t>(bin);
            };
            std::vector<double> weights(static_cast<std::size_t>(bins * filters), 0);
            for (std::int64_t i = 0; i < filters; ++i) {
              const std::int64_t first = corner(i);
              const std::int64_t centre = corner(i + 1);
              const std::int64_t end = corner(i + 2);
              const auto weight = [&](std::int64_t bin) -> double& {
                return weights[static_cast<std::size_t>(bin * filters + i)];
              };
              weight(centre) = 1;
              for (std::int64_t bin = first; bin < centre; ++bin) {
                weight(bin) = static_cast<double>(bin - first) / static_cast<double>(centre - first);
              }
              for (std::int64_t bin = centre; bin < end; ++bin) {
                weight(bin) = static_cast<double>(end - bin) / static_cast<double>(end - centre);
              }
            }
            out[0].tensor = cast(Tensor::from(weights, {bins, filters}), dtype, where);
          },
          {0, 1, 2, 3, 4}};
}

}  // namespace

void add_signal(std::vector<Operator>& all) {
  const auto op = [&all](const char* name, int first, Translation (*translate)(NodeView&), const char* limits) {
    all.push_back({name, first, kNewestOpset, translate, limits});
  };
  op("BlackmanWindow", 17, window<42, 50, 8, 100>, "of a known length");
  op("DFT", 17, fourier, "up to 8192 elements");
  op("HammingWindow", 17, window<25, 21, 0, 46>, "of a known length");
  op("HannWindow", 17, window<1, 1, 0, 2>, "of a known length");
  op("MelWeightMatrix", 17, mel_weights, "of known numbers");
  op("STFT", 17, short_time_fourier, "frames of up to 8192 elements");
}

}  // namespace diptych::onnx
