// The suites' models as ONNX: written, read back and run, they give what the suite's own program gives.

#include "workloads/onnx/export.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "tests/io/folder.h"
#include "workloads/onnx/check.h"

namespace diptych::workloads {
namespace {

using diptych::testing::Folder;

/// Their steps are training, and nothing in them is a forward pass alone.
const std::vector<std::string> kWithoutOnnxForm = {
    "micro/dispatch-tape",         "attention/block-train", "reference/mixed", "reference/train-step",
    "attention/written-out-train", "loss/contrastive",      "micro/optimizer"};

class Export : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Workload& workload : all_workloads()) {
    names.push_back(workload.name);
  }
  return names;
}

double largest_magnitude(const std::vector<Tensor>& tensors) {
  double largest = 0;
  for (const Tensor& tensor : tensors) {
    for (const double value : tensor.to_vector<double>()) {
      largest = std::max(largest, std::fabs(value));
    }
  }
  return largest;
}

// As `diptych onnx export` and then `diptych onnx check` do, with their defaults.
TEST_P(Export, PassesItsOwnCheck) {
  const Workload* workload = find_workload(GetParam());
  ASSERT_NE(workload, nullptr);
  std::optional<ExportedWorkload> exported;
  try {
    exported = export_workload(*workload, 1, std::min<std::int64_t>(workload->check_steps, 2));
  } catch (const onnx::Unsupported& reason) {
    EXPECT_THAT(kWithoutOnnxForm, ::testing::Contains(GetParam())) << reason.what();
    return;
  }
  EXPECT_THAT(kWithoutOnnxForm, ::testing::Not(::testing::Contains(GetParam())));
  const Folder folder;
  write_case(*exported, folder.path() / "case");
  for (const CaseResult& result : check_case(folder.path() / "case", {})) {
    EXPECT_EQ(result.outcome, Outcome::pass) << name_of(result.mode) << ": " << result.reason;
    // Far closer than that: what a sum may lose of its largest terms.
    EXPECT_LE(result.largest_difference, 1e-5 * (1 + largest_magnitude(exported->outputs))) << name_of(result.mode);
  }
}

INSTANTIATE_TEST_SUITE_P(Suites, Export, ::testing::ValuesIn(all_names()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(ExportRefuses, TrainingStepsHaveNoOnnxForm) {
  EXPECT_THROW(export_workload(*find_workload("micro/dispatch-tape"), 1, 0), onnx::Unsupported);
}

}  // namespace
}  // namespace diptych::workloads
