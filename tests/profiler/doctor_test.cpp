#include "profiler/machine/doctor.h"

#include <algorithm>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/machine/noise_probe.h"

namespace diptych::profiler {
namespace {

using testing::HasSubstr;
using Level = Finding::Level;

nlohmann::json quiet_machine() {
  return nlohmann::json::parse(R"({
    "fingerprint": {
      "cpu": {"model": "Quiet CPU", "threads": 8, "cores": 8, "isa": ["avx2", "fma"], "hypervisor": false,
              "governor": "performance", "frequency_driver": "acpi-cpufreq", "max_mhz": 3000.0, "turbo": false},
      "os": {"load_average": 0.01, "aslr": 2, "transparent_huge_pages": "madvise", "swap_used_bytes": 0,
             "cgroup_cpu_quota": null},
      "process": {"affinity": [0, 1, 2, 3, 4, 5, 6, 7], "aslr_disabled": false},
      "build": {"optimised": true, "sanitizers": "none"},
      "clock": {"kind": "tsc", "resolution_ns": 8.0, "cost_ns": 9.0}
    },
    "counters": {"hardware": true, "sanity_ratio": 1.0001, "software": true},
    "noise": {"coefficient_of_variation": 0.001, "worst_over_median": 1.02, "median_ns": 500000.0, "steal_fraction": 0.0},
    "disk_free_bytes": 100000000000
  })");
}

Finding find_finding(const std::vector<Finding>& findings, std::string_view topic) {
  const auto found =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.topic == topic; });
  return found != findings.end() ? *found : Finding{Level::good, "", "(no such finding)", ""};
}

TEST(Doctor, HasNothingAgainstAQuietMachine) {
  for (const Finding& finding : judge(quiet_machine())) {
    EXPECT_EQ(finding.level, Level::good) << finding.topic << ": " << finding.message;
    EXPECT_EQ(finding.advice, "") << finding.topic;
  }
}

struct Ailment {
  const char* pointer;
  nlohmann::json value;
  const char* topic;
  Level level;
};
class Ailments : public testing::TestWithParam<Ailment> {};

TEST_P(Ailments, AreFoundAndTreated) {
  nlohmann::json details = quiet_machine();
  details[nlohmann::json::json_pointer(GetParam().pointer)] = GetParam().value;
  const Finding finding = find_finding(judge(details), GetParam().topic);
  EXPECT_EQ(finding.level, GetParam().level) << finding.message;
  EXPECT_NE(finding.message, "(no such finding)");
  EXPECT_NE(finding.advice, "") << "a complaint comes with what to do";
}

INSTANTIATE_TEST_SUITE_P(
    Doctor, Ailments,
    testing::Values(Ailment{"/fingerprint/cpu/governor", "powersave", "frequency", Level::warning},
                    Ailment{"/fingerprint/cpu/governor", nullptr, "frequency", Level::note},
                    Ailment{"/fingerprint/cpu/turbo", true, "turbo", Level::note},
                    Ailment{"/fingerprint/cpu/hypervisor", true, "virtualisation", Level::note},
                    Ailment{"/fingerprint/cpu/cores", 4, "hyper-threads", Level::note},
                    Ailment{"/fingerprint/process/affinity", nlohmann::json::array({0}), "cores", Level::note},
                    Ailment{"/fingerprint/os/cgroup_cpu_quota", 1.5, "CPU quota", Level::warning},
                    Ailment{"/fingerprint/os/load_average", 6.0, "load", Level::warning},
                    Ailment{"/fingerprint/os/aslr", 0, "address layout", Level::warning},
                    Ailment{"/fingerprint/process/aslr_disabled", true, "address layout", Level::warning},
                    Ailment{"/fingerprint/os/transparent_huge_pages", "always", "huge pages", Level::note},
                    Ailment{"/fingerprint/os/swap_used_bytes", 1e9, "swap", Level::warning},
                    Ailment{"/fingerprint/process/tuning_variables/OPENBLAS_CORETYPE", "Haswell", "environment",
                            Level::warning},
                    Ailment{"/fingerprint/process/tuning_variables/OMP_PROC_BIND", "true", "environment", Level::note},
                    Ailment{"/fingerprint/build/optimised", false, "build", Level::warning},
                    Ailment{"/fingerprint/build/sanitizers", "address", "build", Level::warning},
                    Ailment{"/fingerprint/clock/cost_ns", 800.0, "clock", Level::warning},
                    Ailment{"/noise/steal_fraction", 0.05, "steal time", Level::warning},
                    Ailment{"/noise/coefficient_of_variation", 0.2, "timing noise", Level::warning},
                    Ailment{"/noise/worst_over_median", 4.0, "timing noise", Level::note},
                    Ailment{"/disk_free_bytes", 1000, "disk", Level::warning},
                    Ailment{"/counters/hardware", false, "hardware counters", Level::note}));

TEST(Doctor, UnknownIsNotAFault) {
  EXPECT_NO_THROW(judge(nlohmann::json::object()));
  for (const Finding& finding : judge(nlohmann::json::object())) {
    EXPECT_NE(finding.level, Level::warning) << finding.topic;
  }
}

TEST(Doctor, RendersAbilitiesFirstAndAdviceBelow) {
  nlohmann::json details = quiet_machine();
  details["fingerprint"]["cpu"]["governor"] = "powersave";
  const Diagnosis diagnosis{judge(details), details};
  const std::string text = render(diagnosis, false);
  EXPECT_LT(text.find("What this machine can measure"), text.find("What makes its measurements noisy"));
  EXPECT_LT(text.find("hardware counters"), text.find("frequency"));
  EXPECT_THAT(text, HasSubstr("WARN  frequency"));
  EXPECT_THAT(text, HasSubstr("-> sudo cpupower frequency-set -g performance"));
  EXPECT_THAT(text, HasSubstr("1 warning: see"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(render(diagnosis, true).find('\x1b'), std::string::npos);
}

TEST(Doctor, DoesNotPassOnControlCharacters) {
  nlohmann::json details = quiet_machine();
  details["fingerprint"]["cpu"]["model"] = "evil\x1b[2J";
  details["fingerprint"]["process"]["tuning_variables"]["OMP_PLACES"] = "evil\x1b[2J";
  const Diagnosis diagnosis{judge(details), details};
  EXPECT_EQ(render(diagnosis, false).find('\x1b'), std::string::npos);
}

TEST(Doctor, ExaminesThisMachine) {
  const std::clock_t begin = std::clock();
  const Diagnosis diagnosis = diagnose();
  const double cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 10.0) << "the goal is 2 s; the bound leaves room for sanitizers";
  EXPECT_GE(diagnosis.findings.size(), 10U);
  EXPECT_GT(diagnosis.details.at("noise").at("samples"), 3);
  EXPECT_THAT(render(diagnosis, false), HasSubstr("clock"));
}

TEST(NoiseProbe, TakesAsLongAsAsked) {
  const NoiseProbe probe = probe_noise(0.05);
  EXPECT_GT(probe.samples, 1);
  EXPECT_GT(probe.median_ns, 0.0);
  EXPECT_GE(probe.worst_over_median, 1.0);
  EXPECT_GE(probe.coefficient_of_variation, 0.0);
}

}  // namespace
}  // namespace diptych::profiler
