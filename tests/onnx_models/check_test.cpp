// Recorded results and gradients: right ones pass, wrong ones fail with the place, broken folders are errors.

#include "workloads/onnx/check.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "framework/io/onnx/export.h"
#include "tests/onnx/builder.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using diptych::testing::Builder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// y = tanh(x w) + b in f64, with the gradients of sum(y c) by finite differences.
class Gradients : public ::testing::Test {
 protected:
  Gradients() {
    Rng rng(5);
    x_ = rng.normal({3, 4}, 0, 1, DType::float64);
    w_ = rng.normal({4, 2}, 0, 1, DType::float64);
    b_ = rng.normal({2}, 0, 1, DType::float64);
    c_ = rng.normal({3, 2}, 0, 1, DType::float64);
    const Builder builder = Builder()
                                .input("x", DType::float64, {3, 4})
                                .constant("w", w_)
                                .constant("b", b_)
                                .node("MatMul", {"x", "w"}, {"m"})
                                .node("Tanh", {"m"}, {"t"})
                                .node("Add", {"t", "b"}, {"y"})
                                .output("y");
    fs::create_directories(folder() / "test_data_set_0");
    fs::create_directories(folder() / "grad");
    onnx::write_model(*builder.model(), folder() / "model.onnx");
    onnx::write_tensor({"x", x_}, folder() / "test_data_set_0" / "input_0.pb");
    onnx::write_tensor({"y", value(x_, w_, b_)}, folder() / "test_data_set_0" / "output_0.pb");
    onnx::write_tensor({"y", c_}, folder() / "grad" / "cotangent_0.pb");
  }

  static Tensor value(const Tensor& x, const Tensor& w, const Tensor& b) { return tanh(matmul(x, w)) + b; }

  /// d/dt of sum(y c) by each element of t, which is x, w or b.
  Tensor difference_quotients(int which) const {
    const std::array<Tensor, 3> all{x_, w_, b_};
    const Tensor& t = all[static_cast<std::size_t>(which)];
    std::vector<double> result;
    constexpr double kStep = 1e-6;
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      double ends[2];
      for (const int side : {0, 1}) {
        std::vector<double> moved = t.to_vector<double>();
        moved[static_cast<std::size_t>(i)] += side == 0 ? -kStep : kStep;
        std::array<Tensor, 3> now = all;
        now[static_cast<std::size_t>(which)] = Tensor::from(moved, t.shape());
        ends[side] = sum(value(now[0], now[1], now[2]) * c_).item();
      }
      result.push_back((ends[1] - ends[0]) / (2 * kStep));
    }
    return Tensor::from(result, t.shape());
  }

  void expect(const std::string& name, const Tensor& gradient) const {
    onnx::write_tensor({name, gradient}, folder() / "grad" / (name + ".pb"));
  }
  std::vector<CaseResult> check() const { return check_gradients(folder(), {.rtol = 1e-6, .atol = 1e-7}); }
  fs::path folder() const { return folder_.path(); }

  TemporaryFolder folder_{"diptych-onnx-check"};
  Tensor x_, w_, b_, c_;
};

TEST_F(Gradients, RightOnesPassInBothModes) {
  expect("x", difference_quotients(0));
  expect("w", difference_quotients(1));
  expect("b", difference_quotients(2));
  const std::vector<CaseResult> results = check();
  ASSERT_THAT(results, SizeIs(2));
  for (const CaseResult& result : results) {
    EXPECT_EQ(result.outcome, Outcome::pass) << result.reason;
    EXPECT_GT(result.largest_difference, 0);
  }
  EXPECT_THAT(check_case(folder(), {}), Each(Field(&CaseResult::outcome, Outcome::pass)));
}

TEST_F(Gradients, WrongOnesFailByName) {
  expect("x", difference_quotients(0));
  expect("w", difference_quotients(1) * 1.01);
  for (const CaseResult& result : check()) {
    EXPECT_EQ(result.outcome, Outcome::fail);
    EXPECT_THAT(result.reason, AllOf(HasSubstr("gradient by \"w\""), HasSubstr("element 0")));
  }
}

TEST_F(Gradients, FoldersThatMakeNoSenseAreErrors) {
  const auto reason = [&] {
    const std::vector<CaseResult> results = check();
    EXPECT_THAT(results, Each(Field(&CaseResult::outcome, Outcome::error)));
    return results.front().reason;
  };
  EXPECT_THAT(reason(), HasSubstr("no expected gradient"));
  expect("nobody", x_);
  EXPECT_THAT(reason(), HasSubstr("\"nobody\""));
  fs::remove(folder() / "grad" / "nobody.pb");
  expect("x", difference_quotients(0));
  fs::remove(folder() / "grad" / "cotangent_0.pb");
  EXPECT_THAT(reason(), HasSubstr("output 0 is f64[3,2] and has no cotangent: cotangent_0.pb is missing"));
  fs::remove_all(folder() / "grad");
  EXPECT_THAT(reason(), HasSubstr("no folder grad"));
  fs::remove_all(folder() / "test_data_set_0");
  EXPECT_THAT(check_case(folder(), {}).front().reason, HasSubstr("test_data_set"));
  fs::remove(folder() / "model.onnx");
  EXPECT_THAT(check_case(folder(), {}).front().reason, HasSubstr("model.onnx"));
}

// As exporters of pools with indices write them: an integer's cotangent means nothing, so that there needn't be one.
TEST_F(Gradients, OfIntegersNeedNoCotangent) {
  const Tensor x = Tensor::from({1.0F, 3.0F, 2.0F, 5.0F, 4.0F, 0.0F}, {1, 1, 6});
  const auto write = [&](bool integer_first) {
    Builder builder;
    builder.input("x", DType::float32, {1, 1, 6})
        .node("MaxPool", {"x"}, {"y", "places"},
              {{"kernel_shape", std::vector<std::int64_t>{2}}, {"strides", std::vector<std::int64_t>{2}}});
    for (const char* output : {integer_first ? "places" : "y", integer_first ? "y" : "places"}) {
      builder.output(output);
    }
    fs::remove_all(folder() / "grad");
    fs::create_directories(folder() / "grad");
    onnx::write_model(*builder.model(), folder() / "model.onnx");
    onnx::write_tensor({"x", x}, folder() / "test_data_set_0" / "input_0.pb");
    expect("x", Tensor::from({0.0F, 1.0F, 0.0F, -2.0F, 3.0F, 0.0F}, {1, 1, 6}));
  };
  const Tensor cotangent = Tensor::from({1.0F, -2.0F, 3.0F}, {1, 1, 3});
  for (const bool integer_first : {false, true}) {
    write(integer_first);
    onnx::write_tensor({"y", cotangent}, folder() / "grad" / (integer_first ? "cotangent_1.pb" : "cotangent_0.pb"));
    for (const CaseResult& result : check()) {
      EXPECT_EQ(result.outcome, Outcome::pass) << result.reason;
    }
    // One that is there changes nothing, whatever its type.
    onnx::write_tensor({"places", full({}, 7)},
                       folder() / "grad" / (integer_first ? "cotangent_0.pb" : "cotangent_1.pb"));
    EXPECT_THAT(check(), Each(Field(&CaseResult::outcome, Outcome::pass)));
    fs::remove(folder() / "grad" / (integer_first ? "cotangent_1.pb" : "cotangent_0.pb"));
    EXPECT_THAT(check().front().reason, HasSubstr("is f32[1,1,3] and has no cotangent"));
    onnx::write_tensor({"z", cotangent}, folder() / "grad" / "cotangent_2.pb");
    EXPECT_THAT(check().front().reason, HasSubstr("2 outputs, but a cotangent_2.pb"));
  }
}

// An integer has no slope: its gradient is 0, and that is said.
TEST_F(Gradients, ThroughIntegersAreZeroWithAWarning) {
  const Tensor scale = full({}, 0.1, DType::float32);
  struct Way {
    const char* to;
    const char* back;
    std::vector<std::string> more = {};
    std::map<std::string, onnx::AttributeValue> to_attributes = {};
    std::map<std::string, onnx::AttributeValue> back_attributes = {};
  };
  const Way quantised{"QuantizeLinear", "DequantizeLinear", {"scale", "zero"}};
  const Way cast_away{"Cast", "Cast", {}, {{"to", std::int64_t{7}}}, {{"to", std::int64_t{1}}}};
  const auto write = [&](const Way& way, bool has_other_way) {
    Builder builder;
    builder.input("x", DType::float32, {3}).constant("scale", scale).constant("zero", Tensor::scalar(std::int8_t{0}));
    std::vector<std::string> inputs{"x"};
    inputs.insert(inputs.end(), way.more.begin(), way.more.end());
    builder.node(way.to, inputs, {"q"}, way.to_attributes);
    inputs[0] = "q";
    builder.node(way.back, inputs, {"d"}, way.back_attributes);
    builder.node("Add", {"d", has_other_way ? "x" : "d"}, {"y"}).output("y");
    onnx::write_model(*builder.model(), folder() / "model.onnx");
  };
  const Tensor x = Tensor::from({0.31F, -0.52F, 1.0F}, {3});
  onnx::write_tensor({"x", x}, folder() / "test_data_set_0" / "input_0.pb");
  onnx::write_tensor({"y", full({3}, 2)}, folder() / "grad" / "cotangent_0.pb");
  for (const Way& way : {quantised, cast_away}) {
    write(way, false);
    expect("x", full({3}, 0));
    for (const CaseResult& result : check()) {
      EXPECT_EQ(result.outcome, Outcome::pass) << result.reason;
      EXPECT_THAT(result.warning, AllOf(HasSubstr("by \"x\" is zero"),
                                        HasSubstr(std::string("node \"") + way.to + "_0\" (" + way.to + ")")));
    }
    write(way, true);
    expect("x", full({3}, 2));
    EXPECT_THAT(check(), Each(AllOf(Field(&CaseResult::outcome, Outcome::pass), Field(&CaseResult::warning, ""))));
  }
}

// Another generator's numbers can't be compared: what ran is said, and the other outputs are compared.
TEST_F(Gradients, RandomNumbersAreNotCompared) {
  const auto write = [&](bool all_draw) {
    Builder builder;
    builder.input("x", DType::float32, {3}).node("RandomNormalLike", {"x"}, {"n"}).node("Add", {"x", "n"}, {"y"});
    builder.output("y").node("Neg", {all_draw ? "y" : "x"}, {"z"}).output("z");
    onnx::write_model(*builder.model(), folder() / "model.onnx");
  };
  const Tensor x = Tensor::from({0.31F, -0.52F, 1.0F}, {3});
  onnx::write_tensor({"x", x}, folder() / "test_data_set_0" / "input_0.pb");
  onnx::write_tensor({"y", full({3}, 2)}, folder() / "test_data_set_0" / "output_0.pb");
  onnx::write_tensor({"z", neg(x)}, folder() / "test_data_set_0" / "output_1.pb");
  write(false);
  for (const CaseResult& result : check_case(folder(), {})) {
    EXPECT_EQ(result.outcome, Outcome::unsupported);
    EXPECT_THAT(result.reason, AllOf(HasSubstr("it ran"), HasSubstr("output 0"), HasSubstr("random numbers")));
  }
  onnx::write_tensor({"z", x}, folder() / "test_data_set_0" / "output_1.pb");
  EXPECT_THAT(check_case(folder(), {}), Each(Field(&CaseResult::outcome, Outcome::fail)));
  write(true);
  EXPECT_THAT(check_case(folder(), {}), Each(Field(&CaseResult::outcome, Outcome::unsupported)));
  onnx::write_tensor({"y", full({4}, 2)}, folder() / "test_data_set_0" / "output_0.pb");
  EXPECT_THAT(check_case(folder(), {}), Each(Field(&CaseResult::outcome, Outcome::fail)));
}

TEST(Difference, CountsTypesNanAndInfinity) {
  const auto compare = [](const Tensor& a, const Tensor& b) { return difference(a, b, 1e-3, 1e-7); };
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(compare(Tensor::from({1.0, inf, nan}, {3}), Tensor::from({1.0005, inf, nan}, {3})).reason, "");
  EXPECT_THAT(compare(Tensor::from({1.0, 2.0}, {2}), Tensor::from({1.0, 2.1}, {2})).reason,
              HasSubstr("element 1 is 2"));
  EXPECT_NE(compare(Tensor::from({nan}, {1}), Tensor::from({1.0}, {1})).reason, "");
  EXPECT_NE(compare(Tensor::from({1.0}, {1}), Tensor::from({inf}, {1})).reason, "");
  EXPECT_NE(compare(Tensor::from({1.0}, {1}), Tensor::from({1.0F}, {1})).reason, "");
  EXPECT_NE(compare(Tensor::from({1.0}, {1}), Tensor::from({1.0}, {})).reason, "");
}

// A sum's last places are those of its terms: 1e-6 beside 2 is good enough where the sum is zero.
TEST(Difference, OfNumbersNearZeroIsJudgedByTheLargestOfTheirTensor) {
  const auto reason = [](const Tensor& a, const Tensor& b) { return difference(a, b, 1e-3, 1e-7).reason; };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reason(Tensor::from({2.0, 1e-6}, {2}), Tensor::from({2.0, 0.0}, {2})), "");
  EXPECT_EQ(reason(Tensor::from({2.0, 0.0021}, {2}), Tensor::from({2.0, 0.0}, {2})),
            "element 1 is 0.0021, 0 is recorded");
  EXPECT_NE(reason(Tensor::from({1e-4, 1e-6}, {2}), Tensor::from({1e-4, 0.0}, {2})), "")
      << "a small tensor's are large";
  EXPECT_NE(reason(Tensor::from({inf, 1e-6}, {2}), Tensor::from({inf, 0.0}, {2})), "") << "infinity is no scale";
  const auto integers = [](std::int64_t first, std::int64_t second) {
    return Tensor::from(std::vector<std::int64_t>{first, second}, {2});
  };
  EXPECT_NE(reason(integers(100'000, 4), integers(100'000, 3)), "") << "of integers each by itself";
}

// numpy.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-7) names these elements as mismatched.
TEST(Difference, OfEachElementByItselfIsCountedBeside) {
  const auto compare = [](const std::vector<double>& got, const std::vector<double>& wanted) {
    const Shape shape{static_cast<std::int64_t>(got.size())};
    return difference(Tensor::from(got, shape), Tensor::from(wanted, shape), 1e-3, 1e-7);
  };
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Difference near = compare({2.0, 1e-6, 0.5011, 1.0009, inf, nan}, {2.0, 0.0, 0.5, 1.0, inf, nan});
  EXPECT_EQ(near.reason, "");
  EXPECT_EQ(near.elementwise, 2);
  EXPECT_EQ(near.elementwise_reason, "element 1 is 1e-06, 0 is recorded");
  const Difference far = compare({2.1, 1e-8, nan}, {2.0, 0.0, 1.0});
  EXPECT_EQ(far.reason, "element 0 is 2.1, 2 is recorded");
  EXPECT_EQ(far.elementwise, 2);
}

TEST_F(Gradients, AreHeldAgainstEachElementWhereAsked) {
  const Builder builder = Builder().input("x", DType::float64, {2}).node("Identity", {"x"}, {"y"}).output("y");
  onnx::write_model(*builder.model(), folder() / "model.onnx");
  onnx::write_tensor({"x", Tensor::from({8.0, 0.0}, {2})}, folder() / "test_data_set_0" / "input_0.pb");
  onnx::write_tensor({"y", Tensor::from({8.0, 1e-3}, {2})}, folder() / "test_data_set_0" / "output_0.pb");
  for (const CaseResult& result : check_case(folder(), {})) {
    EXPECT_EQ(result.outcome, Outcome::pass) << result.reason;
    EXPECT_EQ(result.elementwise, 1);
  }
  for (const CaseResult& result : check_case(folder(), {.elementwise = true})) {
    EXPECT_EQ(result.outcome, Outcome::fail);
    EXPECT_THAT(result.reason, AllOf(HasSubstr("element 1 is 0, 0.001 is recorded"), HasSubstr("not for itself")));
  }
}

}  // namespace
}  // namespace diptych::workloads
