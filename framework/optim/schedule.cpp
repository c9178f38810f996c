#include "framework/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace diptych::optim {
namespace {

void check_positive(const char* schedule, const char* field, std::int64_t value) {
  if (value < 1) {
    throw Error(fmt::format("{}: {} is {}; it must be at least 1", schedule, field, value));
  }
}

}  // namespace

double StepLR::operator()(std::int64_t step) const {
  check_positive("StepLR", "step_size", step_size);
  const std::int64_t steps_down = step / step_size;
  return lr * std::pow(gamma, static_cast<double>(steps_down));
}

double CosineAnnealingLR::operator()(std::int64_t step) const {
  check_positive("CosineAnnealingLR", "T_max", T_max);
  const double done = static_cast<double>(std::min(step, T_max)) / static_cast<double>(T_max);
  return eta_min + (lr - eta_min) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

double LinearLR::operator()(std::int64_t step) const {
  check_positive("LinearLR", "total_iters", total_iters);
  const double done = static_cast<double>(std::min(step, total_iters)) / static_cast<double>(total_iters);
  return lr * (start_factor + (end_factor - start_factor) * done);
}

SequentialLR::SequentialLR(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones)
    : schedules_(std::move(schedules)), milestones_(std::move(milestones)) {
  if (schedules_.size() != milestones_.size() + 1) {
    throw Error(
        fmt::format("SequentialLR: {} schedules and {} milestones; give one milestone between each two schedules",
                    schedules_.size(), milestones_.size()));
  }
  for (std::size_t i = 0; i < milestones_.size(); ++i) {
    if (milestones_[i] <= (i == 0 ? 0 : milestones_[i - 1])) {
      throw Error(
          fmt::format("SequentialLR: milestone {} is {}; milestones must be positive and grow", i, milestones_[i]));
    }
  }
}

double SequentialLR::operator()(std::int64_t step) const {
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), step);
  const std::int64_t start = next == milestones_.begin() ? 0 : *(next - 1);
  return schedules_[static_cast<std::size_t>(next - milestones_.begin())](step - start);
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule, std::int64_t first_step)
    : optimizer_(optimizer), schedule_(std::move(schedule)), step_(first_step) {
  optimizer_.set_learning_rate(schedule_(step_));
}

void Scheduler::step(Location where) {
  optimizer_.set_learning_rate(schedule_(step_ + 1), where);
  ++step_;
}

}  // namespace diptych::optim
