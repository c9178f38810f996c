#pragma once

#include <functional>

#include "framework/optim/optimizer.h"

/// Learning rates that change with the step. A schedule is a function of the step alone, so it can be plotted, tested
/// and resumed anywhere; names and formulas are PyTorch's (torch.optim.lr_scheduler), in closed form.
///
///   optim::Scheduler scheduler(adam, optim::SequentialLR({optim::LinearLR{1e-3, 0.01, 1, 500},
///                                                        optim::CosineAnnealingLR{1e-3, 9500}}, {500}));
///   ...; adam.step(gradients); scheduler.step();
namespace diptych::optim {

/// The learning rate of step 0, 1, ...
using Schedule = std::function<double(std::int64_t step)>;

/// lr gamma^floor(step / step_size)
struct StepLR {
  double lr;
  std::int64_t step_size;
  double gamma = 0.1;
  double operator()(std::int64_t step) const;
};

/// From lr down to eta_min along half a cosine in T_max steps [Loshchilov & Hutter 2017]; then constant.
struct CosineAnnealingLR {
  double lr;
  std::int64_t T_max;  // NOLINT(readability-identifier-naming): PyTorch's name
  double eta_min = 0;
  double operator()(std::int64_t step) const;
};

/// Warm-up: lr times a factor that changes linearly from start_factor to end_factor in total_iters steps and then stays
/// constant.
struct LinearLR {
  double lr;
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
  double operator()(std::int64_t step) const;
};

/// schedules[0] up to milestones[0], then schedules[1] counted from there, and so on. Throws Error unless there is one
/// milestone fewer than schedules, in increasing order.
class SequentialLR {
 public:
  SequentialLR(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones);
  double operator()(std::int64_t step) const;

 private:
  std::vector<Schedule> schedules_;
  std::vector<std::int64_t> milestones_;
};

/// Sets an optimizer's rate, which is state of the optimizer, so nothing is recompiled.
class Scheduler {
 public:
  /// Sets the rate of `first_step`: 0, or the step of a checkpoint.
  Scheduler(Optimizer& optimizer, Schedule schedule, std::int64_t first_step = 0);
  /// To be called after an optimizer's step: sets the rate of the next one. Throws CaptureError inside a captured
  /// function.
  void step(Location where = Location::current());
  std::int64_t last_step() const { return step_; }

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::int64_t step_;
};

}  // namespace diptych::optim
