// Models from files: what reading one costs, and that it runs as fast as the same model built in C++.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "framework/io/onnx/export.h"
#include "tests/onnx/builder.h"
#include "workloads/arms/arm.h"
#include "workloads/arms/external_process.h"
#include "workloads/harness/child.h"
#include "workloads/harness/pinning.h"
#include "workloads/onnx/export.h"
#include "workloads/onnx/workload.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using diptych::testing::Builder;
using SteadyClock = std::chrono::steady_clock;

template <class Body>
double seconds_of(const Body& body) {
  const auto start = SteadyClock::now();
  body();
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

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
  std::vector<double> ratios;
  std::vector<double> imports;
  for (int round = 0; round < 9; ++round) {
    // The least that an importer can do: the bytes of the file, and each weight where the engine wants it.
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
    double sums[2] = {};
    for (const int i : {0, 1, 1, 0}) {
      sums[i] += i == 0 ? seconds_of(least) : seconds_of(import);
    }
    ratios.push_back(sums[1] / sums[0]);
    imports.push_back(sums[1] / 2);
  }
  fmt::print("{} MB: {:.1f} ms, {:.2f} of reading and packing alone\n", size / 1000000, median(imports) * 1e3,
             median(ratios));
  EXPECT_LE(median(ratios), 1.5);
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
  const Workload& built = std::string(GetParam()) == "bert/mini" ? bert() : *find_workload(GetParam());
  const TemporaryFolder folder("diptych-onnx-speed");
  const fs::path path = folder.path() / "model.onnx";
  onnx::write_model(export_workload(built, 1, 0).model, path);
  const Workload& read = onnx_workload(path.string());
  for (const char* arm : {"eager", "graph"}) {
    ArmInstance from_code(built, *find_arm(arm), 1);
    ArmInstance from_file(read, *find_arm(arm), 1);
    const double call = seconds_of([&] { from_code.call(0); });
    from_file.call(0);
    const int calls = std::max(1, static_cast<int>(0.02 / seconds_of([&] { from_code.call(0); })));
    const int rounds = call > 0.2 ? 15 : 41;
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) {
      double sums[2] = {};
      for (const int i : {0, 1, 1, 0}) {
        sums[i] += seconds_of([&] {
          for (int k = 0; k < calls; ++k) {
            (i == 0 ? from_code : from_file).call(0);
          }
        });
      }
      ratios.push_back(sums[1] / sums[0]);
    }
    fmt::print("{} {}: {:.3f} of the time of the model built in C++\n", built.name, arm, median(ratios));
    EXPECT_LE(median(ratios), 1.03) << arm;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FromOnnx, ::testing::Values("conv/resnet18", "vit/b16", "bert/mini"));

/// Seconds of a line there and back.
struct LineCost {
  double protocol = 1;  ///< asked and answered by the protocol
  double bare = 1;      ///< the pipes and the wake-ups behind them alone: a line to a loop in Python, and the same back
};

/// This process on one CPU, the others on another or the same: what the scheduler chooses differs between loops that
/// differ by microseconds, and a CPU that has gone idle takes longer to wake than all else here. Both kinds alternate;
/// the batch with the least medians counts, as a neighbour's time is none of the protocol's.
LineCost line_cost(const char* where, int own_cpu, int other_cpu) {
  struct Unpinned {
    std::vector<int> before = allowed_cpus();
    ~Unpinned() { pin_this_process(before); }
  } const unpinned;
  pin_this_process(std::vector{other_cpu});  // those that are started inherit it
  // The least arm: it answers, and that is all.
  ExternalProcess arm({"/usr/bin/python3", "-c", R"py(
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    start = time.perf_counter_ns()
    answer = {"protocol": 1} if request["do"] == "describe" else {"nanoseconds": max(time.perf_counter_ns() - start, 1)}
    print(json.dumps(answer), flush=True)
)py"});
  Child echo({"/usr/bin/python3", "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"},
             own_environment(), ChildOptions{.is_told = true, .search_path = true});
  pin_this_process(std::vector{own_cpu});
  LineCost least;
  std::string answer;
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<double> protocol;
    std::vector<double> bare;
    for (int round = 0; round < 100; ++round) {
      const ExternalProcess::Block block = arm.run(1);
      protocol.push_back(block.passed - block.said);
      bare.push_back(seconds_of([&] {
        echo.write_line("hello", 1000);
        echo.read_line(answer, 1000);
      }));
    }
    const LineCost cost{median(protocol), median(bare)};
    least = cost.protocol < least.protocol ? cost : least;
  }
  EXPECT_EQ(answer, "hello");
  fmt::print("a line there and back {}: {:.1f} us, {:.1f} us without the protocol\n", where, least.protocol * 1e6,
             least.bare * 1e6);
  return least;
}

TEST(ArmProtocol, ARoundCostsLittle) {
  const int cpu = allowed_cpus().back();
  EXPECT_LE(line_cost("on one CPU", cpu, cpu).protocol, 50e-6);
}

TEST(ArmProtocol, ARoundAcrossCpusCostsLittleMoreThanWakingThem) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    GTEST_SKIP() << "needs two CPUs; this process may use one";
  }
  const LineCost cost = line_cost("across CPUs", cpus.front(), cpus.back());
  // 50 us, but where two pipes and the wake-ups behind them take that by themselves.
  EXPECT_LE(cost.protocol, std::max(50e-6, 1.5 * cost.bare));
}

}  // namespace
}  // namespace diptych::workloads
