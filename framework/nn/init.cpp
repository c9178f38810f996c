#include "framework/nn/init.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <string>

#include <fmt/format.h>

namespace diptych::nn::init {
namespace {

struct Call {
  Rng& rng;
  const Shape& shape;
  Fans fans;
  DType dtype;
  double number;
};

Tensor fill(const Call& call, double value) { return call.rng.uniform(call.shape, value, value, call.dtype); }
Tensor uniform(const Call& call, double variance) {
  const double bound = std::sqrt(3 * variance);
  return call.rng.uniform(call.shape, -bound, bound, call.dtype);
}
Tensor normal(const Call& call, double variance) {
  return call.rng.normal(call.shape, 0, std::sqrt(variance), call.dtype);
}
double xavier(const Call& call) {
  return 2 * call.number * call.number / static_cast<double>(call.fans.in + call.fans.out);
}
double kaiming(const Call& call) { return call.number * call.number / static_cast<double>(call.fans.in); }

Tensor truncated_normal(const Call& call) {
  Tensor tensor = Tensor::empty(call.dtype, call.shape);
  visit(call.dtype, [&]<class T>() {
    T* data = tensor.mutable_data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      double value = call.rng.next_normal();
      while (std::abs(value) > 2) {
        value = call.rng.next_normal();
      }
      data[i] = static_cast<T>(value * call.number);
    }
  });
  return tensor;
}

struct Initializer {
  std::string_view name;
  double number;  ///< used if none is given
  Tensor (*draw)(const Call& call);
};
constexpr Initializer kInitializers[] = {
    {"zeros", 0, [](const Call& c) { return fill(c, 0); }},
    {"ones", 1, [](const Call& c) { return fill(c, 1); }},
    {"constant", 0, [](const Call& c) { return fill(c, c.number); }},
    {"uniform", 1, [](const Call& c) { return c.rng.uniform(c.shape, -c.number, c.number, c.dtype); }},
    {"normal", 1, [](const Call& c) { return normal(c, c.number * c.number); }},
    {"truncated_normal", 1, truncated_normal},
    {"fan_in_uniform", 1,
     [](const Call& c) {
       const double bound = c.number / std::sqrt(static_cast<double>(c.fans.in));
       return c.rng.uniform(c.shape, -bound, bound, c.dtype);
     }},
    {"xavier_uniform", 1, [](const Call& c) { return uniform(c, xavier(c)); }},
    {"xavier_normal", 1, [](const Call& c) { return normal(c, xavier(c)); }},
    {"kaiming_uniform", std::numbers::sqrt2, [](const Call& c) { return uniform(c, kaiming(c)); }},
    {"kaiming_normal", std::numbers::sqrt2, [](const Call& c) { return normal(c, kaiming(c)); }},
};

[[noreturn]] void fail(std::string_view name) {
  std::string names;
  for (const Initializer& initializer : kInitializers) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", initializer.name);
  }
  throw Error(
      fmt::format("init: there is no '{}'; choose one of {}, with a finite number of at least 0 if you like: "
                  "normal(0.02)",
                  name, names));
}

}  // namespace

Tensor by_name(std::string_view name, Rng& rng, const Shape& shape, Fans fans, DType dtype) {
  const std::string_view base = name.substr(0, name.find('('));
  for (const Initializer& initializer : kInitializers) {
    if (initializer.name != base) {
      continue;
    }
    double number = initializer.number;
    if (base.size() < name.size()) {
      const char* end = name.data() + name.size() - 1;
      const auto [reached, error] = std::from_chars(name.data() + base.size() + 1, end, number);
      const bool signless = base == "constant" || number >= 0;
      if (error != std::errc() || reached != end || *end != ')' || !std::isfinite(number) || !signless ||
          base == "zeros" || base == "ones") {
        fail(name);
      }
    }
    return initializer.draw({rng, shape, fans, dtype, number});
  }
  fail(name);
}

}  // namespace diptych::nn::init
