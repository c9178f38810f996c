#include "profiler/trace/clock.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace diptych::profiler {
namespace {

TEST(Clock, NamesItsKind) {
  EXPECT_EQ(to_string(ClockKind::tsc), "tsc");
  EXPECT_EQ(to_string(ClockKind::monotonic_raw), "monotonic_raw");
}

TEST(Clock, ConvertsByTwoAnchors) {
  // 3 ticks per nanosecond, at an uptime whose nanoseconds a double of 53 bits couldn't hold together with fractions.
  const std::uint64_t first_tick = 9'000'000'000'000'000;
  const ClockCalibration calibration({first_tick, 5'000}, {first_tick + 3'000'000, 1'005'000});
  EXPECT_DOUBLE_EQ(calibration.ns_per_tick(), 1.0 / 3.0);
  EXPECT_EQ(calibration.to_ns(first_tick), 5'000);
  EXPECT_EQ(calibration.to_ns(first_tick + 3), 5'001);
  EXPECT_EQ(calibration.to_ns(first_tick + 3'000'000'000), 1'000'005'000);
  EXPECT_EQ(calibration.to_ns(first_tick - 300), 4'900) << "ticks before the anchor count backwards";
  EXPECT_DOUBLE_EQ(calibration.duration_ns(600), 200.0);
}

TEST(Clock, KeepsItsRateWhenTheAnchorsCoincide) {
  const ClockCalibration calibration({100, 100}, {100, 100});
  EXPECT_DOUBLE_EQ(calibration.ns_per_tick(), 1.0);
}

TEST(Clock, AgreesWithTheSystemsClock) {
  ClockCalibration calibration;
  // Between readings anything may run: the longest and the shortest time that may have passed.
  const std::uint64_t before_begin = monotonic_raw_ns();
  const std::uint64_t begin = ticks();
  const std::uint64_t after_begin = monotonic_raw_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::uint64_t before_end = monotonic_raw_ns();
  const std::uint64_t end = ticks();
  const std::uint64_t after_end = monotonic_raw_ns();
  calibration.recalibrate();
  const auto measured = static_cast<double>(calibration.to_ns(end) - calibration.to_ns(begin));
  EXPECT_LE(measured, static_cast<double>(after_end - before_begin) + 1'000);
  EXPECT_GE(measured, static_cast<double>(before_end - after_begin) * 0.999);
  EXPECT_NEAR(calibration.drift_ppm(), 0.0, 1000.0);
}

TEST(Clock, MeasuresItself) {
  const ClockCalibration calibration;
  const ClockFigures figures = measure_clock(calibration);
  EXPECT_EQ(figures.kind, clock_kind());
  EXPECT_GT(figures.resolution_ns, 0.0);
  EXPECT_LT(figures.resolution_ns, 1e6);
  EXPECT_GT(figures.cost_ns, 0.1);
  EXPECT_LT(figures.cost_ns, 1e5);
}

}  // namespace
}  // namespace diptych::profiler
