#include "profiler/machine/fingerprint.h"

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/machine/binary_identity.h"
#include "tests/profiler/fake_machine.h"

namespace diptych::profiler {
namespace {

TEST_F(FakeMachine, ReadsTheProcessor) {
  write("proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n"
        "stepping\t: 7\nmicrocode\t: 0x5003006\ncpu MHz\t\t: 2500.000\nflags\t\t: fpu avx avx2 fma hypervisor\n\n"
        "processor\t: 1\nmodel name\t: other\n");
  write("sys/devices/system/cpu/online", "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
    write(folder + "/topology/physical_package_id", "0");
    write(folder + "/topology/thread_siblings_list", cpu % 2 == 0 ? "0,2" : "1,3");
  }
  write("sys/devices/system/cpu/cpu0/cache/index0/level", "1");
  write("sys/devices/system/cpu/cpu0/cache/index0/size", "32K");
  write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3900000");
  write("sys/devices/system/cpu/intel_pstate/no_turbo", "0");
  write("sys/devices/system/node/node0/cpulist", "0-3");

  const nlohmann::json cpu = cpu_fingerprint(files());
  EXPECT_EQ(cpu.at("model"), "Intel(R) Xeon(R)");
  EXPECT_EQ(cpu.at("model_number"), 85);
  EXPECT_EQ(cpu.at("isa"), nlohmann::json({"avx", "fma", "avx2"}));
  EXPECT_EQ(cpu.at("hypervisor"), true);
  EXPECT_EQ(cpu.at("threads"), 4);
  EXPECT_EQ(cpu.at("cores"), 2);
  EXPECT_EQ(cpu.at("sockets"), 1);
  EXPECT_EQ(cpu.at("numa_nodes"), 1);
  EXPECT_EQ(cpu.at("siblings").at("2"), "0,2");
  EXPECT_EQ(cpu.at("caches").at(0).at("size_bytes"), 32768);
  EXPECT_EQ(cpu.at("governor"), "powersave");
  EXPECT_EQ(cpu.at("max_mhz"), 3900.0);
  EXPECT_EQ(cpu.at("current_mhz"), 2500.0);
  EXPECT_EQ(cpu.at("turbo"), true);
  EXPECT_TRUE(cpu.at("steal_seconds").is_null());
  EXPECT_EQ(cpu.at("reasons").at("steal_seconds"), "no /proc/stat");
}

TEST_F(FakeMachine, ReadsTheSystem) {
  write("proc/sys/kernel/osrelease", "6.1.0");
  write("proc/sys/kernel/randomize_va_space", "2");
  write("proc/sys/kernel/perf_event_paranoid", "3");
  write("proc/cmdline", "root=/dev/secret isolcpus=2,3 console=ttyS0 mitigations=off -- --token mitigations=x");
  write("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  write("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable: 8000 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB");
  write("proc/loadavg", "0.52 0.40 0.30 1/100 1234");
  const nlohmann::json os = os_fingerprint(files());
  EXPECT_EQ(os.at("kernel"), "6.1.0");
  EXPECT_EQ(os.at("aslr"), 2);
  EXPECT_EQ(os.at("perf_event_paranoid"), 3);
  EXPECT_EQ(os.at("distribution"), "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(os.at("transparent_huge_pages"), "madvise");
  EXPECT_EQ(os.at("memory_bytes"), 16000 * 1024);
  EXPECT_EQ(os.at("swap_used_bytes"), 60 * 1024);
  EXPECT_EQ(os.at("load_average"), 0.52);
  EXPECT_EQ(os.at("kernel_parameters"), nlohmann::json({"isolcpus=2,3", "mitigations=off"}))
      << "only what changes timings";
}

TEST_F(FakeMachine, AnEmptyMachineGivesNullsWithReasons) {
  for (const nlohmann::json& section : {cpu_fingerprint(files()), os_fingerprint(files())}) {
    for (const auto& [field, value] : section.items()) {
      if (value.is_null()) {
        EXPECT_TRUE(section.at("reasons").contains(field)) << field;
      }
    }
  }
  EXPECT_TRUE(os_fingerprint(files()).at("kernel").is_null());
  EXPECT_TRUE(std::isnan(steal_seconds(files())));
  EXPECT_TRUE(std::isnan(load_average(files())));
}

TEST_F(FakeMachine, ReadsStealTime) {
  write("proc/stat", "cpu  10 20 30 40 50 60 70 800 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0");
  EXPECT_DOUBLE_EQ(steal_seconds(files()), 800.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  write("proc/stat", "cpu  10 20");
  EXPECT_TRUE(std::isnan(steal_seconds(files())));
}

TEST_F(FakeMachine, FindsTheTightestQuotaOfCgroupV2) {
  write("proc/self/cgroup", "0::/user.slice/job");
  write("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpu_quota(files()), std::nullopt);
  write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000");
  EXPECT_EQ(cgroup_cpu_quota(files()), 1.5);
  write("sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000");
  EXPECT_EQ(cgroup_cpu_quota(files()), 0.5);
}

TEST_F(FakeMachine, FindsTheQuotaOfCgroupV1) {
  write("proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/job\n1:name=systemd:/");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpu_quota(files()), std::nullopt);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000");
  EXPECT_EQ(cgroup_cpu_quota(files()), 3.0);
}

TEST_F(FakeMachine, HashesFiles) {
  if (!has_sha256()) {
    GTEST_SKIP() << "not built with OpenSSL";
  }
  const auto path = std::filesystem::temp_directory_path() / ("diptych-hash-" + std::to_string(getpid()));
  std::ofstream(path) << "abc";
  // FIPS 180-4, the standard's own example.
  EXPECT_EQ(sha256_of_file(path), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  std::filesystem::remove(path);
  EXPECT_EQ(sha256_of_file(path), std::nullopt);
}

TEST(SystemFiles, ParsesLists) {
  EXPECT_THAT(parse_cpu_list("0-2,5"), testing::ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(parse_cpu_list(""), testing::IsEmpty());
  EXPECT_THAT(parse_cpu_list("3,"), testing::ElementsAre(3));
  EXPECT_THAT(parse_cpu_list("x"), testing::IsEmpty());
  EXPECT_THAT(parse_cpu_list("0-99999999"), testing::IsEmpty()) << "no machine has that many";
  EXPECT_EQ(selected_choice("a [b] c"), "b");
  EXPECT_EQ(selected_choice("a b"), std::nullopt);
  EXPECT_EQ(selected_choice("] ["), std::nullopt);
  EXPECT_EQ(leading_number(" 2.5 GHz"), 2.5);
  EXPECT_EQ(leading_number("GHz"), std::nullopt);
}

TEST(Fingerprint, DescribesThisMachineQuickly) {
  const std::clock_t begin = std::clock();
  const nlohmann::json fingerprint = environment_fingerprint();
  const double cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 5.0) << "the goal is 0.3 s; the bound leaves room for sanitizers";
  for (const char* section : {"cpu", "os", "process", "build", "clock"}) {
    EXPECT_TRUE(fingerprint.contains(section)) << section;
  }
  EXPECT_FALSE(fingerprint.at("os").at("kernel").is_null());
  EXPECT_FALSE(fingerprint.at("process").at("affinity").empty());
  EXPECT_GT(fingerprint.at("process").at("max_rss_bytes"), 1'000'000);
  EXPECT_FALSE(fingerprint.at("build").at("compiler").get<std::string>().empty());
  EXPECT_FALSE(fingerprint.at("build").at("shared_libraries").empty());
  // Accounts of services may have no home folder, or "/".
  if (const char* home = std::getenv("HOME"); home != nullptr && std::filesystem::path(home).has_relative_path()) {
    const std::string text = fingerprint.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    EXPECT_EQ(text.find(std::string(home) + "/"), std::string::npos) << "nobody's home folder belongs in a report";
  }
}

TEST(Fingerprint, BuildIdIsWhatTheLinkerWrote) {
  const std::vector<LoadedObject> objects = loaded_objects();
  ASSERT_GT(objects.size(), 1U);
  EXPECT_EQ(objects.front().name, "") << "the program comes first";
  if (objects.front().build_id) {
    EXPECT_THAT(*objects.front().build_id, testing::MatchesRegex("[0-9a-f]{16,40}"));
  }
}

}  // namespace
}  // namespace diptych::profiler
