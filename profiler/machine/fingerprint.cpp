#include "profiler/machine/fingerprint.h"

#include "profiler/trace/clock.h"

namespace diptych::profiler {

nlohmann::json environment_fingerprint(const SystemFiles& files) {
  const ClockCalibration calibration;
  const ClockFigures clock = measure_clock(calibration);
  return {{"cpu", cpu_fingerprint(files)},
          {"os", os_fingerprint(files)},
          {"process", process_fingerprint()},
          {"build", build_fingerprint(files)},
          {"clock",
           {{"kind", to_string(clock.kind)},
            {"resolution_ns", clock.resolution_ns},
            {"cost_ns", clock.cost_ns},
            {"ns_per_tick", calibration.ns_per_tick()}}}};
}

}  // namespace diptych::profiler
