#include "profiler/machine/doctor.h"

#include <fmt/format.h>

#include "cli/run_plan.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "reports/run/run_file.h"

namespace diptych::cli {

int doctor(const DoctorOptions& options) {
  profiler::Diagnosis diagnosis = profiler::diagnose();
  diagnosis.details["fingerprint"]["engine"] = engine_facts();  // what a run of this program would record
  fmt::print("{}", options.json ? reports::to_text(diagnosis.details) : profiler::render(diagnosis, wants_colour()));
  return kSuccess;
}

}  // namespace diptych::cli
