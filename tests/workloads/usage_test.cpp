// Memory and hardware counters of an arm's calls, on kernels and /proc folders that the tests make up.

#include "workloads/harness/probes/usage.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "profiler/machine/memory_peak.h"
#include "tests/profiler/fake_kernel.h"
#include "workloads/harness/cell/cell.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using profiler::FakeKernel;
using profiler::SystemFiles;
using ::testing::HasSubstr;

/// A /proc whose peak is `kibibytes` and can be reset.
struct FakeProc {
  explicit FakeProc(const std::string& status = "Name:\tx\nVmPeak:\t 9000 kB\nVmHWM:\t  2048 kB\n") {
    std::filesystem::create_directories(folder.path() / "proc/self");
    write("proc/self/status", status);
    write("proc/self/clear_refs", "");
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder.path() / name) << text; }
  SystemFiles files() const { return SystemFiles(folder.path()); }
  TemporaryFolder folder{"diptych-usage"};
};

FakeKernel counting_kernel() {
  FakeKernel kernel;
  kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] = profiler::sanity_loop_instructions();  // 2,000,000: believed
  kernel.counted[PERF_COUNT_HW_CPU_CYCLES] = 800;
  kernel.counted[PERF_COUNT_HW_CACHE_MISSES] = 12;
  kernel.counted[PERF_COUNT_HW_BRANCH_MISSES] = 6;
  return kernel;
}

json measured(const SystemFiles& files, FakeKernel& kernel, std::int64_t calls) {
  json arm = {{"name", "eager"}};
  int blocks = 0;
  UsageMeter(files, kernel.calls()).measure(arm, calls, [&] { ++blocks; });
  EXPECT_EQ(blocks, 1);
  return arm;
}

TEST(PeakRss, IsReadInBytesAndReset) {
  const FakeProc proc;
  EXPECT_EQ(profiler::peak_rss_bytes(proc.files()), 2048 * 1024.0);
  EXPECT_TRUE(profiler::reset_peak_rss(proc.files()));
  EXPECT_EQ(proc.files().read("/proc/self/clear_refs"), "5");
  const TemporaryFolder empty("diptych-usage");
  EXPECT_EQ(profiler::peak_rss_bytes(SystemFiles(empty.path())), std::nullopt);
  EXPECT_FALSE(profiler::reset_peak_rss(SystemFiles(empty.path())));
  for (const char* status : {"VmHWM:\tmany kB\n", "VmHWM:\n", "VmHWM: 0 kB\n", ""}) {
    EXPECT_EQ(profiler::peak_rss_bytes(FakeProc(status).files()), std::nullopt) << status;
  }
}

// Not by memset: AddressSanitizer would read its shadow of the block, an eighth of its size, which some kernels count.
[[gnu::noinline, gnu::no_sanitize_address]] void touch_pages(volatile std::byte* data, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t at = 0; at < size; at += kPage) {
    data[at] = std::byte{1};
  }
}

// 64 MiB that were touched and given back are in the peak until it is reset. The kernel's counts may lag a little.
TEST(PeakRss, OfThisProcessFollowsWhatItTouches) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer touches four bytes of its own with each byte of the program's";
#endif
  if (!profiler::reset_peak_rss() || !profiler::peak_rss_bytes()) {
    GTEST_SKIP() << "/proc doesn't tell the peak here";
  }
  constexpr std::size_t kSize = std::size_t{64} << 20U;
  const double before = *profiler::peak_rss_bytes();
  // Of the kernel itself: an allocator may keep what it was given back.
  void* const block = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  touch_pages(static_cast<std::byte*>(block), kSize);
  munmap(block, kSize);
  EXPECT_NEAR(*profiler::peak_rss_bytes() - before, kSize, 0.1 * kSize);
  EXPECT_TRUE(profiler::reset_peak_rss());
  EXPECT_NEAR(*profiler::peak_rss_bytes(), before, 0.1 * kSize);
}

#ifdef DIPTYCH_TEST_WITH_PFM

TEST(UsageMeter, CountsPerCall) {
  const FakeProc proc;
  FakeKernel kernel = counting_kernel();
  const json arm = measured(proc.files(), kernel, 4);
  EXPECT_EQ(arm["counters"], json({{"calls", 4},
                                   {"cycles", 200.0},
                                   {"instructions", 500000.0},
                                   {"cache_misses", 3.0},
                                   {"branch_misses", 1.5}}));
  EXPECT_EQ(arm["memory"], json({{"peak_rss_bytes", 2097152.0}, {"page_faults", 250.0}}));  // 1000 faults
  EXPECT_EQ(kernel.closed, static_cast<int>(kernel.files.size()));
}

TEST(UsageMeter, OneEventThatDoesNotFitIsNullWithItsReason) {
  const FakeProc proc;
  FakeKernel kernel = counting_kernel();
  kernel.error_of_config[PERF_COUNT_HW_CACHE_MISSES] = EINVAL;
  const json counters = measured(proc.files(), kernel, 1)["counters"];
  EXPECT_TRUE(counters["cache_misses"].is_null());
  EXPECT_THAT(counters["reason"].get<std::string>(), HasSubstr("cache-misses: "));
  EXPECT_EQ(counters["cycles"], 800.0);
}

// Some virtual machines open every event and read 0.
TEST(UsageMeter, ZerosOfAStubAreNotBelieved) {
  const FakeProc proc;
  FakeKernel kernel = counting_kernel();
  kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] = 0;
  const json counters = measured(proc.files(), kernel, 1)["counters"];
  for (const char* field : {"cycles", "instructions", "cache_misses", "branch_misses"}) {
    EXPECT_TRUE(counters[field].is_null()) << field;
  }
  EXPECT_THAT(counters["reason"].get<std::string>(), HasSubstr("read 0"));
}

#endif

TEST(UsageMeter, WithoutAPmuCountersAreNullAndFaultsAreNot) {
  const FakeProc proc;
  FakeKernel kernel = counting_kernel();
  kernel.pmu = false;
  const json arm = measured(proc.files(), kernel, 2);
  EXPECT_TRUE(arm["counters"]["cycles"].is_null());
  EXPECT_FALSE(arm["counters"]["reason"].get<std::string>().empty());
  EXPECT_TRUE(arm["memory"]["page_faults"].is_number());
  EXPECT_FALSE(arm["memory"].contains("reason"));
}

TEST(UsageMeter, APeakThatCantBeResetIsNotTheArms) {
  const FakeProc proc;
  std::filesystem::remove(proc.folder.path() / "proc/self/clear_refs");
  FakeKernel kernel = counting_kernel();
  const json memory = measured(proc.files(), kernel, 1)["memory"];
  EXPECT_TRUE(memory["peak_rss_bytes"].is_null());
  EXPECT_THAT(memory["reason"].get<std::string>(), HasSubstr("clear_refs"));
}

TEST(UsageMeter, APeakThatIsNotToldIsNull) {
  const FakeProc proc("Name:\tx\n");
  FakeKernel kernel = counting_kernel();
  const json memory = measured(proc.files(), kernel, 1)["memory"];
  EXPECT_TRUE(memory["peak_rss_bytes"].is_null());
  EXPECT_THAT(memory["reason"].get<std::string>(), HasSubstr("VmHWM"));
}

/// x + 1.
class AddingOne final : public Program {
 public:
  std::span<const Tensor> inputs(std::int64_t) override {
    inputs_ = {full({2}, 1)};
    return inputs_;
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {inputs[0] + 1.0}; }
  Variables state() const override { return {}; }

 private:
  std::array<Tensor, 1> inputs_;
};

TEST(Usage, EveryArmOfACellHasIt) {
  const Workload workload{.name = "test/adding",
                          .suite = "test",
                          .title = "adds",
                          .unit = "call",
                          .check_steps = 1,
                          .make = [](std::uint64_t) { return std::make_unique<AddingOne>(); }};
  const FakeProc proc;
  FakeKernel kernel = counting_kernel();
  CellPlan plan{.workload = &workload,
                .arms = {find_arm("eager"), find_arm("graph")},
                .settings = {.process_seed = 1, .layout_seed = 9, .rounds = 2, .block_seconds = 0.0005},
                .full_check = true};
  plan.files = proc.files();
  plan.system = kernel.calls();
  const json process = measure_cell(plan, [](const std::string&) {})["processes"][0];
  const std::int64_t calls = (process["iterations"].get<std::int64_t>() + 3) / 4;
  for (const json& arm : process["arms"]) {
    EXPECT_EQ(arm["counters"]["calls"], calls);
    EXPECT_EQ(arm["memory"]["peak_rss_bytes"], 2097152.0);
    EXPECT_DOUBLE_EQ(arm["memory"]["page_faults"].get<double>(), 1000.0 / static_cast<double>(calls));
  }
}

}  // namespace
}  // namespace diptych::workloads
