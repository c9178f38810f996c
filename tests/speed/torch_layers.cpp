#include "torch_layers.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace diptych::torch_reference {
namespace {

torch::Tensor planes(const Planes& p) { return torch::randn({p.batch, p.channels, p.size, p.size}); }

template <class Fn>
std::function<void()> single_threaded(Fn fn) {
  torch::set_num_threads(1);
  return [fn] {
    const torch::InferenceMode inference;
    const auto result = fn();
    asm volatile("" : : "r"(&result) : "memory");
  };
}

}  // namespace

std::function<void()> convolution(const Convolution& c) {
  const torch::Tensor x = torch::randn({c.batch, c.channels, c.size, c.size});
  const torch::Tensor w = torch::randn({c.outputs, c.channels / c.groups, c.kernel, c.kernel});
  return single_threaded([=] { return torch::conv2d(x, w, {}, c.stride, c.padding, 1, c.groups); });
}

std::function<void()> convolution_backward(const Convolution& c) {
  const torch::Tensor x = torch::randn({c.batch, c.channels, c.size, c.size});
  const torch::Tensor w = torch::randn({c.outputs, c.channels / c.groups, c.kernel, c.kernel});
  const torch::Tensor dy = torch::randn_like(torch::conv2d(x, w, {}, c.stride, c.padding, 1, c.groups));
  return single_threaded([=] {
    return at::convolution_backward(dy, x, w, c10::nullopt, {c.stride, c.stride}, {c.padding, c.padding}, {1, 1}, false,
                                    {0, 0}, c.groups, {true, true, false});
  });
}

std::function<void()> max_pool(const Planes& p) {
  return single_threaded([x = planes(p)] { return torch::max_pool2d(x, 3, 2, 1); });
}
std::function<void()> max_pool_backward(const Planes& p) {
  const torch::Tensor x = planes(p);
  const auto [y, indices] = torch::max_pool2d_with_indices(x, 3, 2, 1);
  return single_threaded([x, dy = torch::randn_like(y), indices = indices] {
    return at::max_pool2d_with_indices_backward(dy, x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, indices);
  });
}
std::function<void()> avg_pool(const Planes& p) {
  return single_threaded([x = planes(p)] { return torch::avg_pool2d(x, 3, 2, 1); });
}
std::function<void()> avg_pool_backward(const Planes& p) {
  const torch::Tensor x = planes(p);
  return single_threaded([x, dy = torch::randn_like(torch::avg_pool2d(x, 3, 2, 1))] {
    return at::avg_pool2d_backward(dy, x, {3, 3}, {2, 2}, {1, 1}, false, true, c10::nullopt);
  });
}

std::function<void()> batch_norm(const Planes& p) {
  const torch::Tensor w = torch::randn({p.channels});
  return single_threaded([x = planes(p), w, mean = torch::zeros({p.channels}), var = torch::ones({p.channels})] {
    return at::native_batch_norm(x, w, w, mean, var, true, 0.1, 1e-5);
  });
}
std::function<void()> batch_norm_backward(const Planes& p) {
  const torch::Tensor x = planes(p);
  const torch::Tensor w = torch::randn({p.channels});
  const torch::Tensor mean = torch::zeros({p.channels});
  const torch::Tensor var = torch::ones({p.channels});
  const auto [y, saved_mean, saved_rstd] = at::native_batch_norm(x, w, w, mean, var, true, 0.1, 1e-5);
  return single_threaded([x, w, mean, var, m = saved_mean, r = saved_rstd, dy = torch::randn_like(x)] {
    return at::native_batch_norm_backward(dy, x, w, mean, var, m, r, true, 1e-5, {true, true, true});
  });
}

std::function<void()> layer_norm(std::int64_t rows, std::int64_t columns) {
  const torch::Tensor w = torch::randn({columns});
  return single_threaded(
      [x = torch::randn({rows, columns}), w, columns] { return at::native_layer_norm(x, {columns}, w, w, 1e-5); });
}
std::function<void()> layer_norm_backward(std::int64_t rows, std::int64_t columns) {
  const torch::Tensor x = torch::randn({rows, columns});
  const torch::Tensor w = torch::randn({columns});
  const auto [y, mean, rstd] = at::native_layer_norm(x, {columns}, w, w, 1e-5);
  return single_threaded([x, w, m = mean, r = rstd, dy = torch::randn_like(x), columns] {
    return at::native_layer_norm_backward(dy, x, {columns}, m, r, w, w, {true, true, true});
  });
}

std::function<void()> group_norm(const Planes& p, std::int64_t groups) {
  const torch::Tensor w = torch::randn({p.channels});
  return single_threaded([x = planes(p), w, p, groups] {
    return at::native_group_norm(x, w, w, p.batch, p.channels, p.size * p.size, groups, 1e-5);
  });
}
std::function<void()> group_norm_backward(const Planes& p, std::int64_t groups) {
  const torch::Tensor x = planes(p);
  const torch::Tensor w = torch::randn({p.channels});
  const auto [y, mean, rstd] = at::native_group_norm(x, w, w, p.batch, p.channels, p.size * p.size, groups, 1e-5);
  return single_threaded([x, w, m = mean, r = rstd, dy = torch::randn_like(x), p, groups] {
    return at::native_group_norm_backward(dy, x, m, r, w, p.batch, p.channels, p.size * p.size, groups,
                                          {true, true, true});
  });
}

}  // namespace diptych::torch_reference
