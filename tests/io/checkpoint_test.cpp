// Training resumed from a file is the same as training never interrupted; a file that doesn't fit changes nothing.

#include "framework/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/io/folder.h"
#include "tests/support/places.h"

namespace diptych::io {
namespace {

using diptych::testing::bytes_of;
using diptych::testing::Folder;
using diptych::testing::write_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model, its optimizer and a training step, as a program would have them.
class Program {
 public:
  explicit Program(bool graph, std::int64_t width = 32) {
    Rng rng(5);
    model_ = std::make_shared<nn::Sequential>(std::vector<nn::ModulePtr>{std::make_shared<nn::Linear>(64, width, rng),
                                                                         std::make_shared<nn::GELU>(),
                                                                         std::make_shared<nn::Linear>(width, 10, rng)});
    optimizer_ = std::make_unique<optim::Adam>(model_->parameters(), 2e-3);
    auto loss = value_and_grad([this](const Tensor& x, const Tensor& y) { return cross_entropy((*model_)(x), y); },
                               {.weights = model_->parameters()});
    const auto step = [this, loss](const Tensor& x, const Tensor& y) mutable {
      const auto result = loss(x, y);
      optimizer_->step(result.weights);
      return result.value;
    };
    step_ = step;
    if (graph) {
      step_ = jit(step);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() = default;

  Checkpoint checkpoint(std::int64_t step = 0) const {
    return {.model = model_->parameters(), .optimizer = optimizer_->state(), .step = step};
  }
  std::vector<Tensor> values() const {
    std::vector<Tensor> all;
    for (const Variables& variables : {model_->parameters(), optimizer_->state()}) {
      all.insert(all.end(), variables.begin(), variables.end());
    }
    return all;
  }
  /// Steps [from, to); the losses.
  std::vector<Tensor> train(std::int64_t from, std::int64_t to) {
    static const data::Dataset digits = data::load_digits(testing::places::digits());
    data::Batches batches(digits, 64, 9);
    std::vector<Tensor> losses;
    for (std::int64_t i = from; i < to; ++i) {
      const data::Dataset batch = batches[i];
      losses.push_back(step_(batch.inputs, batch.labels));
    }
    return losses;
  }
  optim::Adam& optimizer() { return *optimizer_; }

 private:
  std::shared_ptr<nn::Sequential> model_;
  std::unique_ptr<optim::Adam> optimizer_;
  std::function<Tensor(const Tensor&, const Tensor&)> step_;
};

bool all_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bitwise_equal);
}

class Resumed : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(Resumed, TrainingGoesOnWithTheSameBits) {
  const auto [first_graph, second_graph] = GetParam();
  const Folder folder;
  Program uninterrupted(first_graph);
  const std::vector<Tensor> expected = uninterrupted.train(0, 60);

  Program first(first_graph);
  first.train(0, 25);
  save_checkpoint(folder / "run", first.checkpoint(25));
  first.train(25, 27);  // what happens after the checkpoint is not in it

  Program second(second_graph);
  second.train(0, 3);  // nor what was before it was loaded
  const std::int64_t step = load_checkpoint(folder / "run", second.checkpoint());
  ASSERT_EQ(step, 25);
  const std::vector<Tensor> losses = second.train(step, 60);
  EXPECT_TRUE(all_equal({expected.begin() + 25, expected.end()}, losses));
  EXPECT_TRUE(all_equal(uninterrupted.values(), second.values()));
}

INSTANTIATE_TEST_SUITE_P(Modes, Resumed, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "graph" : "eager") + "_then_" +
                                  (std::get<1>(instance.param) ? "graph" : "eager");
                         });

/// Running statistics and the generator of the dropout are part of what a run resumes from.
TEST(Checkpoint, HoldsBuffersAndRandomState) {
  struct Run {
    Run()
        : rng(1),
          generator(7),
          model({std::make_shared<nn::Linear>(6, 8, rng), std::make_shared<nn::BatchNorm1d>(8),
                 std::make_shared<nn::Dropout>(0.5, generator), std::make_shared<nn::Linear>(8, 1, rng)}),
          adam(model.parameters(), 1e-2) {}
    Checkpoint checkpoint() {
      return {.model = model.state(), .optimizer = adam.state(), .random = {generator.state()}, .step = 4};
    }
    std::vector<Tensor> train(int from, int to) {
      auto loss =
          value_and_grad([&](const Tensor& x) { return mean(square(model(x))); }, {.weights = model.parameters()});
      std::vector<Tensor> losses;
      for (int i = from; i < to; ++i) {
        const auto result = loss(Rng(static_cast<std::uint64_t>(i)).normal({5, 6}));
        adam.step(result.weights);
        losses.push_back(result.value);
      }
      model.eval();
      losses.push_back(model(ones({5, 6})));
      model.train();
      return losses;
    }
    Rng rng;
    Generator generator;
    nn::Sequential model;
    optim::Adam adam;
  };
  const Folder folder;
  Run first;
  first.train(0, 4);
  save_checkpoint(folder / "run", first.checkpoint());
  const std::vector<Tensor> expected = first.train(4, 10);
  Run second;
  second.train(0, 1);
  load_checkpoint(folder / "run", second.checkpoint());
  EXPECT_TRUE(all_equal(expected, second.train(4, 10)));
  EXPECT_NE(load_safetensors(folder / "run").find("model.1.running_var"), nullptr);
}

TEST(Checkpoint, NamesArePaths) {
  const Folder folder;
  save_checkpoint(folder / "run", Program(false).checkpoint(7));
  const TensorFile file = load_safetensors(folder / "run");
  for (const char* name : {"model.0.weight", "model.2.bias", "optimizer.first_moment.0.weight",
                           "optimizer.second_moment.2.bias", "optimizer.learning_rate"}) {
    EXPECT_NE(file.find(name), nullptr) << name;
  }
  EXPECT_EQ(file.metadata.at("step"), "7");
}

/// Why load_checkpoint refuses; checks that nothing has changed.
std::string refusal(const std::filesystem::path& path, std::int64_t width = 32) {
  const Program program(false, width);
  const std::vector<Tensor> before = program.values();
  std::string message = "no error";
  try {
    load_checkpoint(path, program.checkpoint());
  } catch (const FileError& error) {
    message = error.what();
  }
  EXPECT_EQ(all_equal(before, program.values()), message != "no error");
  return message;
}

class MismatchedCheckpoint : public ::testing::Test {
 protected:
  MismatchedCheckpoint() {
    Program program(false);
    program.train(0, 2);
    save_checkpoint(path_, program.checkpoint(2));
    file_ = load_safetensors(path_);
  }
  Tensor& tensor(const std::string& name) {
    for (NamedTensor& entry : file_.tensors) {
      if (entry.name == name) {
        return entry.tensor;
      }
    }
    throw Error("no tensor " + name);
  }
  std::string refusal_of_changed() {
    save_safetensors(path_, file_);
    return refusal(path_);
  }

  Folder folder_;
  std::filesystem::path path_ = folder_ / "run";
  TensorFile file_;
};

TEST_F(MismatchedCheckpoint, TheOneThatFitsIsLoaded) { EXPECT_EQ(refusal_of_changed(), "no error"); }

TEST_F(MismatchedCheckpoint, AnotherModel) {
  EXPECT_THAT(refusal(path_, 48), AllOf(HasSubstr("model.0.weight"), HasSubstr("f32[64,32]"), HasSubstr("f32[64,48]"),
                                        HasSubstr("build the model")));
}

TEST_F(MismatchedCheckpoint, AMissingTensor) {
  std::erase_if(file_.tensors, [](const NamedTensor& entry) { return entry.name == "optimizer.second_moment.2.bias"; });
  EXPECT_THAT(refusal_of_changed(), AllOf(HasSubstr("optimizer.second_moment.2.bias"), HasSubstr("missing")));
}

TEST_F(MismatchedCheckpoint, AnUnexpectedTensor) {
  file_.tensors.push_back({"model.4.weight", zeros({2})});
  EXPECT_THAT(refusal_of_changed(), AllOf(HasSubstr("model.4.weight"), HasSubstr("unexpected")));
}

TEST_F(MismatchedCheckpoint, AnotherShapeOrType) {
  const Tensor bias = tensor("model.2.bias");
  tensor("model.2.bias") = reshape(bias, {2, 5});
  EXPECT_THAT(refusal_of_changed(), AllOf(HasSubstr("model.2.bias"), HasSubstr("f32[2,5]")));
  tensor("model.2.bias") = cast(bias, DType::float64);
  EXPECT_THAT(refusal_of_changed(), AllOf(HasSubstr("model.2.bias"), HasSubstr("f64[10]")));
}

TEST_F(MismatchedCheckpoint, MetadataThatIsNotOurs) {
  const std::map<std::string, std::string> good = file_.metadata;
  for (const char* key : {"format", "version", "step"}) {
    file_.metadata = good;
    file_.metadata.erase(key);
    EXPECT_THAT(refusal_of_changed(), HasSubstr(key));
    for (const char* text : {"", "-1", "2 ", "99999999999999999999", "NaN"}) {
      file_.metadata[key] = text;
      EXPECT_NE(refusal_of_changed(), "no error") << key << " " << text;
    }
  }
}

TEST_F(MismatchedCheckpoint, EveryTruncation) {
  const std::string bytes = bytes_of(path_);
  for (std::size_t length = 0; length < bytes.size(); length += length < 3000 ? 97 : 4999) {
    write_bytes(path_, bytes.substr(0, length));
    EXPECT_NE(refusal(path_), "no error") << length;
  }
}

TEST(Checkpoint, VariablesOfOneNameAreRefused) {
  const Folder folder;
  const Checkpoint twice{.model = {Variable(zeros({1}), "w"), Variable(zeros({1}), "w")}};
  EXPECT_THROW(save_checkpoint(folder / "run", twice), Error);
  save_checkpoint(folder / "run", {.model = {twice.model[0]}});
  EXPECT_THROW(load_checkpoint(folder / "run", twice), Error);
}

TEST(Checkpoint, NotInsideACapturedFunction) {
  const Folder folder;
  auto captured = jit([&](const Tensor& x) {
    save_checkpoint(folder / "run", {});
    return x;
  });
  EXPECT_THROW(captured(zeros({1})), CaptureError);
  EXPECT_EQ(folder.files(), 0U);
}

}  // namespace
}  // namespace diptych::io
