// The suites' models as ONNX: written, read back and run, they give what the suite's own program gives.

#include "workloads/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "tests/io/folder.h"
#include "workloads/onnx/check.h"

namespace diptych::workloads {
namespace {

using diptych::testing::Folder;

class Export : public ::testing::TestWithParam<const char*> {};

TEST_P(Export, RunsAsTheSuitesProgramDoes) {
  const Workload* workload = find_workload(GetParam());
  ASSERT_NE(workload, nullptr);
  const ExportedWorkload exported = export_workload(*workload, 1, 2);
  const Folder folder;
  write_case(exported, folder.path() / "case");
  CheckOptions options;
  options.rtol = 1e-5;
  options.atol = 1e-5;
  for (const CaseResult& result : check_case(folder.path() / "case", options)) {
    EXPECT_EQ(result.outcome, Outcome::pass) << name_of(result.mode) << ": " << result.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Suites, Export,
                         ::testing::Values("mlp/digits", "mlp/simplenet", "attention/block", "attention/sdpa-64",
                                           "attention/sdpa-causal-64", "vit/reference-b1", "vit/tiny", "vit/digits",
                                           "conv/block", "conv/digits", "conv/resnet18", "gpt/mini", "gpt/mini-infer",
                                           "reference/rigid-32", "micro/dispatch", "micro/fusion"));

TEST(Export, TrainingStepsHaveNoOnnxForm) {
  EXPECT_THROW(export_workload(*find_workload("micro/dispatch-tape"), 1, 0), onnx::Unsupported);
}

}  // namespace
}  // namespace diptych::workloads
