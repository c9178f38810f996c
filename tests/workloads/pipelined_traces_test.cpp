// What a trace of pipelined dispatch has on which thread.

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/runtime/pipeline.h"
#include "profiler/trace/tracer.h"
#include "tests/graph/variants.h"

namespace diptych {
namespace {

TEST(PipelinedTraces, HaveKernelsOnTheLaunchThreadAndDispatchOnTheHost) {
#ifndef DIPTYCH_TRACE_POINTS
  GTEST_SKIP() << "a build without trace points records nothing";
#endif
  const PipelinedScope scope;
  const Tensor x = testing::wave({32, 32}, 1);
  synchronize();
  profiler::Tracer tracer;
  tracer.start();
  Tensor y = x;
  for (int i = 0; i < 20; ++i) {
    y = tanh(matmul(y, x));
  }
  synchronize();
  const profiler::Trace trace = tracer.stop();
  std::map<std::string, int> host;
  std::map<std::string, int> worker;
  for (const auto& zone : trace.zones) {
    const bool is_worker = trace.threads[zone.thread].name == "launch";
    ++(is_worker ? worker : host)[trace.label_of(zone).name];
  }
  EXPECT_EQ(host["dispatch"], 40);
  EXPECT_EQ(host.count("matmul"), 0U) << "else the table would count a kernel twice";
  EXPECT_EQ(worker["matmul"], 20);
  EXPECT_EQ(worker["tanh"], 20);
}

}  // namespace
}  // namespace diptych
