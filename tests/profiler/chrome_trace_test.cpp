#include "profiler/trace/chrome_trace.h"

#include <limits>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace diptych::profiler {
namespace {

using nlohmann::json;
using trace::Category;

Trace example() {
  Trace trace;
  trace.pid = 100;
  trace.start_unix_ns = 1'700'000'000'123'456'789;
  trace.duration_ns = 5'000'000;
  trace.threads = {{101, "main", 0}, {102, "worker", 0}};
  trace.labels = {
      {"step", Category::user}, {"matmul", Category::op}, {"gemm", Category::kernel}, {"bytes", Category::memory}};
  trace.zones = {{0, 0, 1'000, 2'000'001, 0, Trace::no_parent, 0},
                 {0, 1, 1'005, 1'500'000, 42, 0, 1},
                 {1, 2, 999, 1'000'999, 42, Trace::no_parent, 0}};
  trace.counters = {{0, 3, 7, 4096}};
  return trace;
}

std::string written(const Trace& trace, const ChromeTraceOptions& options = {}) {
  std::ostringstream out;
  const ChromeTraceSummary summary = write_chrome_trace(trace, out, options);
  EXPECT_EQ(summary.bytes, out.str().size());
  return out.str();
}

json events(const json& file, const std::string& phase) {
  json found = json::array();
  for (const json& event : file.at("traceEvents")) {
    if (event.at("ph") == phase) {
      found.push_back(event);
    }
  }
  return found;
}

TEST(ChromeTrace, WritesZones) {
  const std::string text = written(example());
  const json file = json::parse(text);
  EXPECT_EQ(file.at("displayTimeUnit"), "ns");
  EXPECT_EQ(file.at("baseTimeNanoseconds"), 1'700'000'000'123'456'789);
  const json zones = events(file, "X");
  ASSERT_EQ(zones.size(), 3U);
  EXPECT_EQ(zones[0].at("name"), "gemm") << "in order of time";
  EXPECT_EQ(zones[0].at("tid"), 102);
  EXPECT_EQ(zones[0].at("pid"), 100);
  EXPECT_EQ(zones[2].at("args").at("External id"), 42);
  EXPECT_FALSE(zones[1].contains("args"));
  // Digits as text: parsing would round them.
  EXPECT_THAT(text, testing::HasSubstr(R"("ts":1.005,"dur":1498.995)"));
  EXPECT_THAT(text, testing::HasSubstr(R"("ts":0.999,"dur":1000.000)"));
}

TEST(ChromeTrace, UsesTheCategoriesThatTorchTraceReadersKnow) {
  const json zones = events(json::parse(written(example())), "X");
  EXPECT_EQ(zones[0].at("cat"), "kernel");
  EXPECT_EQ(zones[1].at("cat"), "user_annotation");
  EXPECT_EQ(zones[2].at("cat"), "cpu_op");
}

TEST(ChromeTrace, SaysWhatIsKnownOfSourceOps) {
  ChromeTraceOptions options;
  options.arguments[42] = {
      .reads = {"weight \"w\""}, .input_dims = {{64, 10}, {}}, .input_types = {"float", "long int"}, .sequence = 7};
  const json own = events(json::parse(written(example(), options)), "X");
  EXPECT_FALSE(own[1].contains("args"));
  EXPECT_EQ(own[2].at("args"), json::parse(R"({"External id": 42, "Reads": ["weight \"w\""],
      "Input Dims": [[64, 10], []], "Input type": ["float", "long int"], "Sequence number": 7})"));
  options.source_ops = {{}, {42, 43}, {}};  // in place of the zones' own
  const json given = events(json::parse(written(example(), options)), "X");
  EXPECT_FALSE(given[0].contains("args"));
  EXPECT_EQ(given[2].at("args").at("External id"), 42);
  EXPECT_EQ(given[2].at("args").at("Source ops"), json({42, 43}));
  EXPECT_EQ(given[2].at("args").at("Sequence number"), 7);
}

TEST(ChromeTrace, ArrowsBeginAndEndInTheirZones) {
  Trace trace = example();
  trace.zones.push_back({0, 1, 1'600'000, 1'700'000, 43, 0, 1});
  const json file = json::parse(written(trace, {.flows = {{"fwdbwd", 1, 3}, {"same \"op\"", 2, 1}}}));
  const json starts = events(file, "s");
  const json ends = events(file, "f");
  ASSERT_EQ(starts.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(starts[1], json::parse(R"({"ph": "s", "id": 1, "pid": 100, "tid": 101, "ts": 1.005, "cat": "fwdbwd",
                                       "name": "fwdbwd"})"));
  EXPECT_EQ(ends[1], json::parse(R"({"ph": "f", "bp": "e", "id": 1, "pid": 100, "tid": 101, "ts": 1600.0,
                                     "cat": "fwdbwd", "name": "fwdbwd"})"));
  EXPECT_EQ(starts[0].at("tid"), 102);  // of another thread
  EXPECT_EQ(starts[0].at("name"), "same \"op\"");
  EXPECT_EQ(starts[0].at("id"), ends[0].at("id"));
  // A viewer binds an end to the zone that is open: it must have been seen.
  std::vector<std::string> order;
  for (const json& event : file.at("traceEvents")) {
    if (event.at("tid") == 101 && event.at("ph") != "M" && event.at("ph") != "C") {
      order.push_back(event.at("ph"));
    }
  }
  EXPECT_EQ(order, (std::vector<std::string>{"X", "X", "s", "f", "X", "f"}));
}

TEST(ChromeTrace, WritesCountersAndThreadNames) {
  const json file = json::parse(written(example()));
  const json counters = events(file, "C");
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].at("name"), "bytes");
  EXPECT_EQ(counters[0].at("args").at("value"), 4096);
  bool worker_named = false;
  for (const json& event : events(file, "M")) {
    worker_named |=
        event.at("name") == "thread_name" && event.at("tid") == 102 && event.at("args").at("name") == "worker";
  }
  EXPECT_TRUE(worker_named);
}

TEST(ChromeTrace, KeepsCountersOfThreadsApart) {
  Trace trace = example();
  ASSERT_GE(trace.threads.size(), 2U);
  trace.counters = {trace.counters[0], trace.counters[0]};
  trace.counters[0].thread = 0;
  trace.counters[1].thread = 1;
  const json counters = events(json::parse(written(trace)), "C");
  EXPECT_FALSE(counters[0].contains("id"));
  EXPECT_EQ(counters[1].at("id"), trace.threads[1].tid);
}

TEST(ChromeTrace, SurvivesHostileNames) {
  Trace trace = example();
  const std::string nasty = std::string("\"},{\\ \n\t\x01 </script> \xff\xc3 \xed\xa0\x80 {} {0}") + '\0' + "é";
  for (Trace::Label& label : trace.labels) {
    label.name = nasty;
  }
  trace.threads[0].name = nasty;
  const json file = json::parse(written(trace));
  EXPECT_EQ(events(file, "X").size(), 3U);
  const std::string name = events(file, "X")[0].at("name");
  EXPECT_THAT(name, testing::HasSubstr("\xEF\xBF\xBD")) << "invalid UTF-8 becomes the replacement character";
  EXPECT_THAT(name, testing::EndsWith("é"));
}

TEST(ChromeTrace, WritesTimesBeforeTheBase) {
  Trace trace = example();
  trace.counters[0].time_ns = -1'500;
  EXPECT_THAT(written(trace), testing::HasSubstr(R"("ts":-1.500)"));
  trace.counters[0].time_ns = std::numeric_limits<std::int64_t>::min();
  EXPECT_NO_THROW(json::parse(written(trace)));
}

TEST(ChromeTrace, KeepsToTheSizeLimitAndSaysSo) {
  Trace trace = example();
  for (int i = 0; i < 1000; ++i) {
    trace.zones.push_back({0, 1, 2'000'000 + i * 100, 2'000'050 + i * 100, 1, Trace::no_parent, 0});
  }
  trace.dropped = 5;
  std::ostringstream out;
  const ChromeTraceSummary summary = write_chrome_trace(trace, out, {.max_bytes = 20'000});
  EXPECT_LE(out.str().size(), 20'000U);
  EXPECT_GT(out.str().size(), 15'000U);
  const json file = json::parse(out.str());
  EXPECT_EQ(summary.events + summary.events_dropped, trace.zones.size() + trace.counters.size());
  EXPECT_GT(summary.events_dropped, 0U);
  EXPECT_EQ(file.at("otherData").at("events_dropped_by_file_size"), summary.events_dropped);
  EXPECT_EQ(file.at("otherData").at("records_dropped_by_tracer"), 5);
  for (const json& event : events(file, "X")) {
    EXPECT_LT(event.at("ts").get<double>() * 1000.0, file.at("otherData").at("complete_until_ns").get<double>());
  }
}

TEST(ChromeTrace, WritesAnEmptyTrace) {
  const json file = json::parse(written(Trace{}));
  EXPECT_EQ(events(file, "X").size(), 0U);
  EXPECT_EQ(file.at("otherData").at("events_dropped_by_file_size"), 0);
}

TEST(ChromeTrace, ReportsAFailedStream) {
  std::ostream broken(nullptr);
  EXPECT_THROW(write_chrome_trace(example(), broken), FileError);
}

}  // namespace
}  // namespace diptych::profiler
