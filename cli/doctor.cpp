#include "profiler/doctor.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/verbs.h"
#include "reports/run_file.h"

namespace diptych::cli {

int doctor(const DoctorOptions& options) {
  const profiler::Diagnosis diagnosis = profiler::diagnose();
  fmt::print("{}", options.json ? reports::to_text(diagnosis.details) : profiler::render(diagnosis, wants_colour()));
  return kSuccess;
}

}  // namespace diptych::cli
