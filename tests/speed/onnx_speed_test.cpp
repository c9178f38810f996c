// Models from files: what reading one costs, and that it runs as fast as the same model built in C++.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "framework/io/onnx/export.h"
#include "reports/statistics/statistics.h"
#include "tests/onnx/builder.h"
#include "tests/support/speed_bound.h"
#include "workloads/arms/arm.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/cell/load.h"
#include "workloads/harness/pinning.h"
#include "workloads/onnx/export.h"
#include "workloads/onnx/workload.h"
#include "workloads/processes/child.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using diptych::testing::Block;
using diptych::testing::block_of;
using diptych::testing::Builder;
using diptych::testing::expect_bounds;
using diptych::testing::expect_ratio;

/// 25 layers with a megaword of weights each.
std::shared_ptr<const onnx::Model> large_model() {
  constexpr std::int64_t kWidth = 1024;
  Builder builder;
  builder.input("x0", DType::float32, {1, kWidth});
  Rng rng(1);
  for (int i = 0; i < 25; ++i) {
    const std::string weight = fmt::format("w{}", i);
    builder.constant(weight, rng.normal({kWidth, kWidth}));
    builder.node("MatMul", {fmt::format("x{}", i), weight}, {fmt::format("x{}", i + 1)});
  }
  return builder.output("x25").model();
}

TEST(OnnxSpeed, ImportTakesLittleMoreThanReadingAndPacking) {
  const TemporaryFolder folder("diptych-onnx-speed");
  const fs::path path = folder.path() / "large.onnx";
  onnx::write_model(*large_model(), path);
  const std::size_t size = fs::file_size(path);
  // The least that an importer can do: read the file and put each weight where the engine wants it.
  const auto least = [&] {
    const std::unique_ptr<char[]> bytes(new char[size]);
    std::ifstream(path, std::ios::binary).read(bytes.get(), static_cast<std::streamsize>(size));
    const std::size_t weight = std::size_t{4} << 20U;
    std::vector<Tensor> weights;
    for (std::size_t at = 0; at + weight <= size; at += weight) {
      weights.push_back(Tensor::empty(DType::float32, {1024, 1024}));
      std::memcpy(weights.back().mutable_data<float>(), bytes.get() + at, weight);
    }
  };
  const auto import = [&] {
    const onnx::ImportedModel model(std::make_shared<onnx::Model>(onnx::read_model(path)));
    EXPECT_EQ(model.inputs().size(), 1U);
  };
  expect_ratio(fmt::format("import of {} MB", size / 1000000), 1.5, block_of(import), block_of(least),
               "of reading and packing alone", {.calls = 1});
}

/// BERT's encoder [Devlin et al. 2019], small: token, position and segment embeddings, 4 post-norm layers, the pooler.
class MiniBert : public nn::Module {
 public:
  static constexpr std::int64_t kWidth = 256;
  static constexpr std::int64_t kLength = 128;

  explicit MiniBert(Rng& rng)
      : tokens_(add("tokens", std::make_shared<nn::Embedding>(1000, kWidth, rng))),
        positions_(parameter("positions", rng.normal({kLength, kWidth}, 0, 0.02))),
        norm_(add("norm", std::make_shared<nn::LayerNorm>(Shape{kWidth}))) {
    for (int i = 0; i < 4; ++i) {
      layers_->append(std::make_shared<nn::TransformerEncoderLayer>(
          kWidth, 4, rng,
          nn::TransformerEncoderLayerOptions{.dim_feedforward = 4 * kWidth, .dropout = 0, .activation = "gelu"}));
    }
    add("layers", layers_);
    pooler_ = add("pooler", std::make_shared<nn::Linear>(kWidth, kWidth, rng));
  }
  Tensor forward(const Tensor& tokens) override {
    Tensor x = (*norm_)((*tokens_)(tokens) + positions_);
    for (const auto& layer : *layers_) {
      x = (*layer)(x);
    }
    return tanh((*pooler_)(x));
  }

 private:
  std::shared_ptr<nn::Embedding> tokens_;
  Variable positions_;
  std::shared_ptr<nn::LayerNorm> norm_;
  std::shared_ptr<nn::ModuleList<nn::TransformerEncoderLayer>> layers_ =
      std::make_shared<nn::ModuleList<nn::TransformerEncoderLayer>>();
  std::shared_ptr<nn::Linear> pooler_;
};

class BertProgram : public Program {
 public:
  explicit BertProgram(std::uint64_t seed) : rng_(seed), model_(rng_) {
    model_.eval();
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 0; i < MiniBert::kLength; ++i) {
      tokens.push_back((i * 7919) % 1000);
    }
    inputs_ = {Tensor::from(tokens, {1, MiniBert::kLength})};
  }
  std::span<const Tensor> inputs(std::int64_t) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {model_(inputs[0])}; }

 private:
  Rng rng_;
  MiniBert model_;
  std::vector<Tensor> inputs_;
};

const Workload& bert() {
  static const Workload workload{.name = "bert/mini",
                                 .suite = "bert",
                                 .title = "4 layers, 256 wide, 128 tokens",
                                 .unit = "call",
                                 .make = [](std::uint64_t seed) { return std::make_unique<BertProgram>(seed); }};
  return workload;
}

class FromOnnx : public ::testing::TestWithParam<const char*> {};

TEST_P(FromOnnx, RunsAsFastAsTheModelBuiltInCpp) {
  if (std::string(GetParam()) == "vit/b16" && std::getenv("DIPTYCH_EVERY_VALUE") == nullptr) {
    GTEST_SKIP() << "a minute, for the ops of vit/tiny in other sizes: scripts/nightly tests, or DIPTYCH_EVERY_VALUE=1";
  }
  const Workload& built = std::string(GetParam()) == "bert/mini" ? bert() : *find_workload(GetParam());
  const TemporaryFolder folder("diptych-onnx-speed");
  const fs::path path = folder.path() / "model.onnx";
  onnx::write_model(export_workload(built, 1, 0).model, path);
  const Workload& read = onnx_workload(path.string());
  for (const char* arm : {"eager", "graph"}) {
    ArmInstance from_code(built, *find_arm(arm), 1);
    ArmInstance from_file(read, *find_arm(arm), 1);
    const auto calls_of = [](ArmInstance& instance) { return block_of([&instance] { instance.call(0); }); };
    expect_ratio(fmt::format("{} {}", built.name, arm), 1.03, calls_of(from_file), calls_of(from_code),
                 "of the time of the model built in C++", {.block_seconds = 0.02});
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FromOnnx, ::testing::Values("conv/resnet18", "vit/tiny", "vit/b16", "bert/mini"));

/// A minimal arm, which only answers, and its pipes and wake-ups alone: a loop in Python that echoes every line. This
/// process is on one CPU, those are on another or the same: the scheduler's choice differs between loops that differ by
/// microseconds, and waking an idle CPU takes longer than everything else here.
class ArmProtocol : public ::testing::Test {
 protected:
  ~ArmProtocol() override { pin_this_process(before_); }

  void start(int own_cpu, int other_cpu) {
    pin_this_process(std::vector{other_cpu});  // those that are started inherit it
    arm_ = std::make_unique<ExternalProcess>(std::vector<std::string>{"/usr/bin/python3", "-c", R"py(
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    start = time.perf_counter_ns()
    answer = {"protocol": 1} if request["do"] == "describe" else {"nanoseconds": max(time.perf_counter_ns() - start, 1)}
    print(json.dumps(answer), flush=True)
)py"});
    echo_ = std::make_unique<Child>(
        std::vector<std::string>{"/usr/bin/python3", "-c",
                                 "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"},
        own_environment(), ChildOptions{.is_told = true, .search_path = true});
    pin_this_process(std::vector{own_cpu});
  }

  /// Seconds of lines there and back, with the protocol and without it. By the median line: one that waited for its CPU
  /// says nothing about either.
  std::vector<Block> lines() {
    const auto median_line = [](int count, const auto& line) {
      std::vector<double> seconds;
      for (int i = 0; i < count; ++i) {
        seconds.push_back(line());
      }
      return count * reports::median(seconds);
    };
    const Block protocol = [this, median_line](int count) {
      return median_line(count, [this] {
        const ExternalProcess::Block block = arm_->run(1);
        return block.passed - block.said;
      });
    };
    const Block bare = [this, median_line](int count) {
      return median_line(count, [this] {
        return diptych::testing::seconds_of(1, [this] {
          std::string answer;
          echo_->write_line("hello", 1000);
          echo_->read_line(answer, 1000);
          EXPECT_EQ(answer, "hello");
        });
      });
    };
    return {protocol, bare};
  }

  diptych::testing::MeasuringOptions options() {
    return {.calls = 50,
            .own_seconds = [this] { return own_cpu_seconds() + arm_->cpu_seconds() + echo_->cpu_seconds(); }};
  }

 private:
  std::vector<int> before_ = allowed_cpus();
  std::unique_ptr<ExternalProcess> arm_;
  std::unique_ptr<Child> echo_;
};

TEST_F(ArmProtocol, ARoundCostsLittle) {
  const int cpu = allowed_cpus().back();
  start(cpu, cpu);
  expect_bounds(lines(),
                {{.what = "a line there and back on one CPU",
                  .limit = 50e-6,
                  .figure = [](auto seconds) { return seconds[0]; },
                  .unit = "us",
                  .scale = 1e6}},
                options());
}

TEST_F(ArmProtocol, ARoundAcrossCpusCostsLittleMoreThanWakingThem) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    GTEST_SKIP() << "needs two CPUs; this process may use one";
  }
  start(cpus.front(), cpus.back());
  // 50 us, except where two pipes and their wake-ups alone take that long.
  expect_bounds(lines(),
                {{.what = "a line there and back across CPUs",
                  .limit = 1,
                  .figure = [](auto seconds) { return seconds[0] / std::max(50e-6, 1.5 * seconds[1]); },
                  .unit = "of the larger of 50 us and 1.5 lines without the protocol"}},
                options());
}

}  // namespace
}  // namespace diptych::workloads
