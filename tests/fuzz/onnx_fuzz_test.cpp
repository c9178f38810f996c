// Damaged model files: reading, importing and calling one either works or throws Error; nothing else happens. It takes
// seconds by default; DIPTYCH_FUZZ_SECONDS sets another time, DIPTYCH_FUZZ_SEED other damage.

#include <csignal>
#include <fcntl.h>
#include <new>
#include <sys/time.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/export.h"
#include "framework/io/onnx/import.h"
#include "tests/fuzz/budget.h"
#include "tests/fuzz/model_mutator.h"
#include "tests/io/folder.h"
#include "tests/onnx/builder.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using diptych::testing::bytes_of;
using diptych::testing::Folder;
using diptych::testing::ModelMutator;

/// Models that touch shapes, indices, windows, control flow and every kind of attribute.
std::vector<std::string> seed_models() {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", DType::float32, {2});
  body.node("Identity", {"go"}, {"still"}).node("Add", {"v", "x"}, {"next"}).output("still").output("next");
  Builder loop;
  loop.input("x", DType::float32, {2})
      .constant("trips", Tensor::scalar(std::int64_t{3}))
      .constant("yes", Tensor::from({true}, {}))
      .node("Loop", {"trips", "yes", "x"}, {"y"}, {{"body", AttributeValue(body.body())}})
      .output("y");
  Builder network;
  network.input("x", DType::float32, {1, 2, 6, 6})
      .constant("w", full({3, 2, 3, 3}, 0.5))
      .integers("shape", {1, -1})
      .integers("starts", {0})
      .integers("ends", {40})
      .integers("axes", {1})
      .node("Conv", {"x", "w"}, {"c"}, {{"pads", AttributeValue(std::vector<std::int64_t>{1, 1, 1, 1})}})
      .node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", AttributeValue(std::vector<std::int64_t>{2, 2})}})
      .node("Reshape", {"p", "shape"}, {"f"})
      .node("Slice", {"f", "starts", "ends", "axes"}, {"s"})
      .node("LeakyRelu", {"s"}, {"l"}, {{"alpha", AttributeValue(0.1)}})
      .node("Softmax", {"l"}, {"y"}, {{"axis", AttributeValue(std::int64_t{-1})}})
      .output("y");
  Builder table;
  table.input("x", DType::int64, {3})
      .constant("t", full({5, 4}, 1))
      .integers("rep", {2, 2})
      .integers("pads", {0, 1, 0, 1})
      .node("Gather", {"t", "x"}, {"g"})
      .node("Tile", {"g", "rep"}, {"r"})
      .node("Pad", {"r", "pads"}, {"q"}, {{"mode", AttributeValue(std::string("edge"))}})
      .node("Einsum", {"q", "q"}, {"e"}, {{"equation", AttributeValue(std::string("ij,ij->i"))}})
      .node("ReduceSum", {"e"}, {"y"})
      .output("y");
  const auto list = [](std::vector<std::int64_t> values) { return AttributeValue(std::move(values)); };
  Builder image(19);
  image.input("x", DType::float32, {1, 2, 3, 3})
      .constant("w", full({2, 2, 2, 2}, 0.5))
      .constant("scales", Tensor::from({1.0F, 1.0F, 1.5F, 2.0F}, {4}))
      .node("ConvTranspose", {"x", "w"}, {"c"}, {{"strides", list({2, 1})}, {"output_padding", list({1, 0})}})
      .node("Resize", {"c", "", "scales"}, {"r"}, {{"mode", AttributeValue(std::string("cubic"))}})
      .node("AveragePool", {"r"}, {"p"},
            {{"kernel_shape", list({2, 2})}, {"ceil_mode", AttributeValue(std::int64_t{1})}})
      .node("Split", {"p"}, {"a", "b"},
            {{"axis", AttributeValue(std::int64_t{1})}, {"num_outputs", AttributeValue(std::int64_t{2})}})
      .node("Concat", {"b", "a"}, {"y"}, {{"axis", AttributeValue(std::int64_t{1})}})
      .output("y");
  Builder row;
  row.input("s", DType::float32, {2}).input("v", DType::float32, {2});
  row.node("Add", {"s", "v"}, {"t"}).node("Identity", {"t"}, {"u"}).output("t").output("u");
  Builder rows;
  rows.input("x", DType::float32, {3, 2})
      .constant("zero", full({2}, 0))
      .node("Scan", {"zero", "x"}, {"last", "all"},
            {{"body", AttributeValue(row.body())}, {"num_scan_inputs", AttributeValue(std::int64_t{1})}})
      .node("TopK", {"all", "k"}, {"values", "places"})
      .integers("k", {1})
      .output("values")
      .output("last");
  Builder yes;
  yes.node("Exp", {"x"}, {"e"}).output("e");
  Builder no;
  no.node("Neg", {"x"}, {"n"}).output("n");
  Builder choice;
  choice.input("x", DType::float32, {2, 2})
      .input("c", DType::boolean, {})
      .integers("i", {0, 1})
      .node("If", {"c"}, {"b"},
            {{"then_branch", AttributeValue(yes.body())}, {"else_branch", AttributeValue(no.body())}})
      .node("GatherND", {"b", "i2"}, {"g"})
      .constant("i2", Tensor::from({std::int64_t{0}, std::int64_t{1}}, {1, 2}))
      .node("ScatterND", {"b", "i2", "g"}, {"y"})
      .output("y");
  Builder heads(23);
  heads.input("q", DType::float32, {1, 2, 3, 4})
      .constant("mask", full({3, 3}, 0))
      .node("Attention", {"q", "q", "q", "mask"}, {"y"}, {{"is_causal", AttributeValue(std::int64_t{1})}})
      .output("y");
  Builder bytes(21);
  bytes.input("x", DType::float16, {2, 4})
      .constant("scales", cast(full({2, 2}, 0.5), DType::float16))
      .constant("scale", full({}, 0.5))
      .constant("zero", full({}, 3, DType::int8))
      .constant("w", full({4, 2}, 2, DType::int8))
      .constant("w_scales", full({2}, 0.25))
      .constant("w_zeros", full({2}, 1, DType::int8))
      .constant("places", full({1}, 3, DType::uint32))
      .node("QuantizeLinear", {"x", "scales"}, {"u"},
            {{"block_size", AttributeValue(std::int64_t{2})}, {"output_dtype", AttributeValue(std::int64_t{3})}})
      .node("QLinearMatMul", {"u", "scale", "zero", "w", "w_scales", "w_zeros", "scale", "zero"}, {"q"})
      .node("Cast", {"q"}, {"c"}, {{"to", AttributeValue(std::int64_t{12})}})
      .node("BitShift", {"c", "places"}, {"y"}, {{"direction", AttributeValue(std::string("LEFT"))}})
      .output("y");
  const auto text = [](const char* value) { return AttributeValue(std::string(value)); };
  Builder steps;
  steps.input("x", DType::float32, {3, 2, 4})
      .constant("w", full({1, 12, 4}, 0.1))
      .constant("r", full({1, 12, 3}, 0.1))
      .integers("lengths", {2, 3})
      .node("LSTM", {"x", "w", "r", "", "lengths"}, {"y"}, {{"hidden_size", AttributeValue(std::int64_t{3})}})
      .node("ReverseSequence", {"y", "two"}, {"z"})
      .integers("two", {1})
      .output("z");
  Builder volume(24);
  volume.input("x", DType::float32, {1, 2, 3, 4, 5})
      .constant("w", full({2, 1, 2, 2, 2}, 0.5))
      .constant("theta", full({1, 3, 4}, 0.3))
      .integers("size", {1, 1, 2, 2, 2})
      .node("AffineGrid", {"theta", "size"}, {"grid"})
      .node("Conv", {"x", "w"}, {"c"}, {{"group", AttributeValue(std::int64_t{2})}, {"pads", list({1, 0, 0, 0, 1, 0})}})
      .node("MaxPool", {"c"}, {"p", "places"}, {{"kernel_shape", list({2, 2, 2})}, {"pads", list({2, 0, 0, 0, 0, 2})}})
      .node("MaxUnpool", {"p", "places"}, {"u"}, {{"kernel_shape", list({2, 2, 2})}})
      .node("AveragePool", {"p"}, {"a"}, {{"kernel_shape", list({2, 1, 1})}, {"dilations", list({2, 1, 1})}})
      .node("GridSample", {"p", "grid"}, {"g"}, {{"padding_mode", text("reflection")}})
      .node("Swish", {"g"}, {"y"})
      .output("y")
      .output("a");
  Builder signal(20);
  signal.input("x", DType::float32, {1, 8, 1})
      .constant("step", Tensor::scalar(std::int64_t{2}))
      .constant("length", Tensor::scalar(std::int64_t{4}))
      .node("HannWindow", {"length"}, {"window"})
      .node("STFT", {"x", "step", "window", "length"}, {"s"})
      .node("DFT", {"s", "length", "step"}, {"d"}, {{"inverse", AttributeValue(std::int64_t{1})}})
      .node("SplitToSequence", {"d", "step"}, {"list"}, {{"axis", AttributeValue(std::int64_t{2})}})
      .node("SequenceAt", {"list", "place"}, {"y"})
      .constant("place", Tensor::scalar(std::int64_t{-1}))
      .output("y");
  Builder boxes;
  boxes.input("x", DType::float32, {1, 1, 4, 4})
      .constant("b", full({1, 2, 4}, 0.5))
      .constant("s", full({1, 1, 2}, 0.5))
      .constant("most", Tensor::scalar(std::int64_t{2}))
      .constant("regions", full({1, 4}, 1))
      .integers("images", {0})
      .node("NonMaxSuppression", {"b", "s", "most"}, {"found"})
      .node("Unique", {"found"}, {"u"})
      .node("TfIdfVectorizer", {"u"}, {"t"},
            {{"mode", text("TF")},
             {"max_gram_length", AttributeValue(std::int64_t{2})},
             {"ngram_counts", list({0, 1})},
             {"ngram_indexes", list({0, 1})},
             {"pool_int64s", list({0, 0, 1})}})
      .node("RoiAlign", {"x", "regions", "images"}, {"a"}, {{"sampling_ratio", AttributeValue(std::int64_t{2})}})
      .node("Det", {"x"}, {"d"})
      .output("a")
      .output("d")
      .output("t");
  const Folder folder;
  std::vector<std::string> files;
  for (const Builder* builder :
       {&loop, &network, &table, &image, &rows, &choice, &heads, &bytes, &steps, &volume, &signal, &boxes}) {
    write_model(*builder->model(), folder.path() / "m.onnx");
    files.push_back(bytes_of(folder.path() / "m.onnx"));
  }
  return files;
}

/// Inputs that fit what the model says, if they are small.
std::optional<std::vector<Tensor>> inputs_of(const ImportedModel& model) {
  std::vector<Tensor> inputs;
  for (const ValueInfo& info : model.inputs()) {
    Shape shape;
    std::int64_t count = 1;
    for (const auto& length : info.shape) {
      const auto* number = std::get_if<std::int64_t>(&length);
      const std::int64_t wanted = number != nullptr ? *number : 2;
      if (wanted < 0 || wanted > 64 || shape.rank() == kMaxRank) {
        return std::nullopt;
      }
      shape.push_back(wanted);
      count *= wanted;
    }
    if (!info.dtype || count > 100'000) {
      return std::nullopt;
    }
    inputs.push_back(full(shape, 1, *info.dtype));
  }
  return inputs;
}

std::string current;  ///< what is tried, for the handler

/// What hangs is found too, and kept.
void keep_what_hangs(int /*signal*/) {
  const char* const path = "onnx-fuzz-hang.onnx";
  const int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  [[maybe_unused]] ssize_t ignored = write(file, current.data(), current.size());
  constexpr std::string_view kSaid =
      "an input took over a minute of CPU time; it is in onnx-fuzz-hang.onnx, in this folder\n";
  ignored = write(STDERR_FILENO, kSaid.data(), kSaid.size());
  _exit(1);
}

/// Of CPU time: beside other programs, a loop that is long but ends takes several times as many seconds.
void stop_after(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

TEST(OnnxFuzz, DamagedModelsAreErrorsOrRun) {
  const std::vector<std::string> files = seed_models();
  const diptych::testing::FuzzBudget budget(20261121);
  ModelMutator mutator(budget.seed());
  set_memory_limit(std::uint64_t{1} << 30U);  // what it tries is one of many
  signal(SIGPROF, keep_what_hangs);
  std::int64_t read = 0;
  std::int64_t ran = 0;
  std::int64_t tried = 0;
  while (budget.lasts_seconds(5)) {
    current = mutator.damaged(files[static_cast<std::size_t>(tried) % files.size()]);
    ++tried;
    stop_after(60);
    try {
      auto model = std::make_shared<const Model>(parse_model(current, "fuzzed", "/nonexistent"));
      ++read;
      ImportedModel imported(model);
      if (const auto inputs = inputs_of(imported)) {
        imported.call(*inputs);
        ++ran;
      }
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }
  stop_after(0);
  std::printf("seed %llu: %ld tried, %ld read, %ld ran\n", static_cast<unsigned long long>(budget.seed()),
              static_cast<long>(tried), static_cast<long>(read), static_cast<long>(ran));
  EXPECT_GT(read, tried / 20) << "the damage is too rough to get far";
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace diptych::onnx
