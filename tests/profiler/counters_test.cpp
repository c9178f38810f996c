#include "profiler/counters/counters.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <linux/perf_event.h>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "profiler/counters/event_encoding.h"
#include "tests/profiler/fake_kernel.h"

namespace diptych::profiler {
namespace {

using testing::HasSubstr;

CounterReading count(FakeKernel& kernel, const std::vector<std::string>& events) {
  CounterGroup group(events, kernel.calls());
  group.start();
  return group.stop();
}

#ifdef DIPTYCH_TEST_WITH_PFM

/// libpfm4 reads this once, when it starts: it then encodes events of processors that this machine doesn't have.
const bool encode_any_processor = setenv("LIBPFM_ENCODE_INACTIVE", "1", 1) == 0;

TEST(EventEncoding, GoldenEncodings) {
  ASSERT_TRUE(encode_any_processor);
  struct Golden {
    const char* name;
    std::uint32_t type;
    std::uint64_t config;
  };
  // From the processors' manuals: event select in bits 0-7, unit mask in bits 8-15.
  for (const Golden& golden : {Golden{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
                               Golden{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
                               Golden{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
                               Golden{"skx::FP_ARITH_INST_RETIRED:SCALAR_SINGLE", PERF_TYPE_RAW, 0x02C7},
                               Golden{"skx::FP_ARITH_INST_RETIRED:128B_PACKED_SINGLE", PERF_TYPE_RAW, 0x08C7},
                               Golden{"skx::FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", PERF_TYPE_RAW, 0x20C7},
                               Golden{"skx::FP_ARITH_INST_RETIRED:512B_PACKED_SINGLE", PERF_TYPE_RAW, 0x80C7},
                               Golden{"skx::LONGEST_LAT_CACHE:MISS", PERF_TYPE_RAW, 0x412E}}) {
    const EncodedEvent event = encode_event(golden.name);
    ASSERT_TRUE(event.encoding) << golden.name << ": " << event.reason;
    EXPECT_EQ(event.encoding->type, golden.type) << golden.name;
    EXPECT_EQ(event.encoding->config, golden.config) << golden.name;
    EXPECT_FALSE(event.encoding->software);
  }
}

TEST(EventEncoding, SaysWhenAnEventIsUnknown) {
  const EncodedEvent event = encode_event("no-such-event");
  EXPECT_FALSE(event.encoding);
  EXPECT_THAT(event.reason, HasSubstr("no-such-event"));
}

TEST(Counters, OpensOneGroupWithoutTheKernel) {
  FakeKernel kernel;
  const CounterReading reading = count(kernel, {"cycles", "instructions"});
  ASSERT_EQ(kernel.files.size(), 2U);
  const auto& leader = kernel.files.at(10);
  const auto& member = kernel.files.at(11);
  EXPECT_EQ(leader.group, -1);
  EXPECT_EQ(member.group, 10);
  EXPECT_EQ(leader.attributes.disabled, 1U);
  EXPECT_EQ(member.attributes.disabled, 0U);
  for (const auto& [file, event] : kernel.files) {
    EXPECT_EQ(event.attributes.exclude_kernel, 1U);
    EXPECT_EQ(event.attributes.exclude_hv, 1U);
    EXPECT_EQ(event.attributes.read_format,
              PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
  }
  EXPECT_EQ(reading.value("cycles"), 1000.0);
  EXPECT_EQ(reading.find("cycles")->running_ratio, 1.0);
  EXPECT_EQ(reading.find("cycles")->reason, "");
  EXPECT_EQ(kernel.closed, 2);
}

struct ErrorCase {
  int error;
  const char* expected;
};
class OpenError : public testing::TestWithParam<ErrorCase> {};

TEST_P(OpenError, GivesNoValueButAReason) {
  FakeKernel kernel;
  kernel.hardware_error = GetParam().error;
  const CounterReading reading = count(kernel, {"cycles", "task-clock"});
  const CounterValue* cycles = reading.find("cycles");
  ASSERT_NE(cycles, nullptr);
  EXPECT_FALSE(cycles->value) << "unknown is not 0";
  EXPECT_FALSE(cycles->running_ratio);
  EXPECT_THAT(cycles->reason, HasSubstr(GetParam().expected));
  EXPECT_EQ(reading.value("task-clock"), 1000.0) << "software events don't suffer";
}

INSTANTIATE_TEST_SUITE_P(Errno, OpenError,
                         testing::Values(ErrorCase{ENOENT, "no PMU"}, ErrorCase{EACCES, "perf_event_paranoid"},
                                         ErrorCase{EPERM, "perf_event_paranoid"}, ErrorCase{EOPNOTSUPP, "hypervisor"},
                                         ErrorCase{ENODEV, "hypervisor"}, ErrorCase{ENOSYS, "without perf events"},
                                         ErrorCase{EBUSY, "reserved"}, ErrorCase{EMFILE, "open files"},
                                         ErrorCase{ENFILE, "open files"}, ErrorCase{ENOSPC, "no free"},
                                         ErrorCase{EINVAL, "together"}, ErrorCase{E2BIG, "older"},
                                         ErrorCase{ENOMEM, "memory"}, ErrorCase{EIO, "errno 5"}),
                         [](const auto& test) { return "errno" + std::to_string(test.param.error); });

TEST(Counters, RetriesInterruptedCalls) {
  FakeKernel kernel;
  kernel.interrupted_opens = 3;
  kernel.interrupted_reads = 3;
  EXPECT_EQ(count(kernel, {"cycles"}).value("cycles"), 1000.0);
}

TEST(Counters, GivesUpOnEndlessInterruption) {
  FakeKernel kernel;
  kernel.interrupted_opens = 1'000'000;
  EXPECT_FALSE(count(kernel, {"cycles"}).value("cycles"));
}

TEST(Counters, TheOthersGoOnWhenOneDoesNotFit) {
  FakeKernel kernel;
  kernel.error_of_config[PERF_COUNT_HW_CPU_CYCLES] = EINVAL;
  const CounterReading reading = count(kernel, {"cycles", "instructions", "branch-misses"});
  EXPECT_FALSE(reading.value("cycles"));
  EXPECT_EQ(reading.value("instructions"), 1000.0);
  EXPECT_EQ(reading.value("branch-misses"), 1000.0);
  EXPECT_EQ(kernel.files.at(10).group, -1) << "the next event leads";
}

TEST(Counters, ReportsAFailedRead) {
  FakeKernel kernel;
  kernel.read_error = EIO;
  const CounterReading reading = count(kernel, {"cycles"});
  EXPECT_FALSE(reading.value("cycles"));
  EXPECT_THAT(reading.find("cycles")->reason, HasSubstr("reading failed"));
}

TEST(Counters, ScalesMultiplexedCounts) {
  FakeKernel kernel;
  kernel.running_ratio = 0.75;
  kernel.counted[PERF_COUNT_HW_CPU_CYCLES] = 8'000'000'000'000'000;  // x enabled time would overflow 64 bits
  const CounterReading reading = count(kernel, {"cycles"});
  ASSERT_TRUE(reading.value("cycles"));
  EXPECT_NEAR(*reading.value("cycles"), 8e15, 1e7);
  EXPECT_NEAR(*reading.find("cycles")->running_ratio, 0.75, 1e-9);
  EXPECT_THAT(reading.find("cycles")->reason, HasSubstr("extrapolated"));
}

TEST(Counters, DoesNotFlagSlightMultiplexing) {
  FakeKernel kernel;
  kernel.running_ratio = 0.95;
  EXPECT_EQ(count(kernel, {"cycles"}).find("cycles")->reason, "");
}

TEST(Counters, WithholdsWhatWasMostlyGuessed) {
  FakeKernel kernel;
  kernel.running_ratio = 0.4;
  const CounterReading reading = count(kernel, {"cycles"});
  EXPECT_FALSE(reading.value("cycles"));
  EXPECT_NEAR(*reading.find("cycles")->running_ratio, 0.4, 1e-9);
  EXPECT_THAT(reading.find("cycles")->reason, HasSubstr("withheld"));
}

TEST(Counters, ToleratesAGroupThatNeverRan) {
  FakeKernel kernel;
  kernel.running_ratio = 0.0;
  const CounterReading reading = count(kernel, {"cycles"});
  EXPECT_FALSE(reading.value("cycles"));
  EXPECT_THAT(reading.find("cycles")->reason, HasSubstr("never scheduled"));
}

TEST(Counters, DoesNotOpenHardwareEventsWithoutAPmu) {
  FakeKernel kernel;
  kernel.pmu = false;
  const CounterReading reading = count(kernel, {"cycles"});
  EXPECT_TRUE(kernel.files.empty());
  EXPECT_THAT(reading.find("cycles")->reason, HasSubstr("no PMU"));
}

TEST(Counters, TriesWhenSysfsIsHidden) {
  FakeKernel kernel;
  kernel.pmu = std::nullopt;
  EXPECT_EQ(count(kernel, {"cycles"}).value("cycles"), 1000.0);
}

TEST(Counters, WeighsFlopsByVectorWidth) {
  CounterReading reading;
  double count_of_width = 1.0;
  for (const std::string& name : fp32_flop_events()) {
    reading.values.push_back({name, count_of_width, 1.0, "", "perf"});
    count_of_width *= 10.0;
  }
  EXPECT_EQ(fp32_flops(reading), 1.0 + 4 * 10.0 + 8 * 100.0 + 16 * 1000.0);
  reading.values[2].value.reset();
  EXPECT_EQ(fp32_flops(reading), std::nullopt);
}

TEST(CounterProbe, BelievesARightCount) {
  FakeKernel kernel;
  kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] = sanity_loop_instructions() + 300;
  const CounterSupport support = probe_counters(kernel.calls());
  EXPECT_TRUE(support.hardware) << support.hardware_reason;
  EXPECT_TRUE(support.software);
}

TEST(CounterProbe, DoesNotBelieveAZero) {
  FakeKernel kernel;
  kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] = 0;
  const CounterSupport support = probe_counters(kernel.calls());
  EXPECT_FALSE(support.hardware);
  EXPECT_THAT(support.hardware_reason, HasSubstr("read 0"));
}

TEST(CounterProbe, DoesNotBelieveAWrongCount) {
  FakeKernel kernel;
  kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] = sanity_loop_instructions() / 2;
  const CounterSupport support = probe_counters(kernel.calls());
  EXPECT_FALSE(support.hardware);
  EXPECT_THAT(support.hardware_reason, HasSubstr("was counted as"));
}

#else

TEST(Counters, SaysWhatTheBuildLacks) {
  FakeKernel kernel;
  const CounterReading reading = count(kernel, {"cycles", "task-clock"});
  EXPECT_FALSE(reading.value("cycles"));
  EXPECT_EQ(reading.find("cycles")->reason, "not built with libpfm4");
  EXPECT_EQ(reading.value("task-clock"), 1000.0);
}

#endif

TEST(Counters, ContextSwitchesIncludeTheKernel) {
  FakeKernel kernel;
  count(kernel, {"context-switches"});
  EXPECT_EQ(kernel.files.at(10).attributes.exclude_kernel, 0U) << "in user mode their count is always 0";
}

TEST(Counters, SoftwareEventsFallBackOnGetrusage) {
  FakeKernel kernel;
  kernel.software_error = EACCES;
  SystemCalls system = kernel.calls();
  double called = 0;
  system.thread_usage = [&called] {
    called += 1.0;
    return ThreadUsage{100.0 * called, 10.0 * called, called};
  };
  CounterGroup group({"task-clock", "page-faults", "context-switches"}, system);
  group.start();
  const CounterReading reading = group.stop();
  EXPECT_EQ(reading.value("task-clock"), 100.0);
  EXPECT_EQ(reading.value("page-faults"), 10.0);
  EXPECT_EQ(reading.value("context-switches"), 1.0);
  EXPECT_EQ(reading.find("task-clock")->source, "getrusage");
}

TEST(Counters, StopNeedsAStart) {
  FakeKernel kernel;
  CounterGroup group({"task-clock"}, kernel.calls());
  EXPECT_THROW(group.stop(), Error);
}

TEST(Counters, JsonHasNullForUnknown) {
  FakeKernel kernel;
  kernel.hardware_error = ENOENT;
  const nlohmann::json json = to_json(count(kernel, {"cycles", "task-clock"}));
  EXPECT_TRUE(json.at(0).at("value").is_null());
  EXPECT_FALSE(json.at(0).at("reason").is_null());
  EXPECT_EQ(json.at(1).at("value"), 1000.0);
}

TEST(Counters, WorksOnThisMachine) {
  CounterGroup group;
  group.start();
  volatile double sum = 0.0;
  for (int i = 0; i < 100'000; ++i) {
    sum = sum + 1.0;
  }
  const CounterReading reading = group.stop();
  ASSERT_EQ(reading.values.size(), default_events().size());
  for (const CounterValue& value : reading.values) {
    EXPECT_TRUE(value.value || !value.reason.empty()) << value.name;
  }
  ASSERT_TRUE(reading.value("task-clock"));
  EXPECT_GT(*reading.value("task-clock"), 10'000.0);
}

}  // namespace
}  // namespace diptych::profiler
