// The nth allocation fails, for every n, as SQLite's tests have it: of importing a model, compiling a function and one
// call, in every mode. What comes of it is std::bad_alloc or Error; nothing leaks, states keep their values, and the
// next call gives the right bits. An even sample of the allocations by default; DIPTYCH_LONG=1: all of them.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/diptych.h"
#include "framework/io/safetensors.h"
#include "tests/fuzz/refusal.h"
#include "tests/io/folder.h"
#include "tests/support/short_run.h"
#include "tests/support/with_threads.h"
#ifdef DIPTYCH_WITH_ONNX
#include "framework/io/onnx/export.h"
#include "framework/io/onnx/import.h"
#include "tests/onnx/builder.h"
#endif

namespace diptych::testing {
namespace {

using Results = std::vector<Tensor>;

/// What is called twice: while an allocation is refused, and then without. The second call gives, and leaves in the
/// states, what it does without the first.
struct Calls {
  std::function<Results()> call;
  std::function<Results()> states = [] { return Results(); };
};
struct Trial {
  std::string name;
  std::function<Calls()> begin;  ///< makes what the calls need afresh, with all the memory that it wants
  std::int64_t kept = 0;         ///< blocks that workers keep from their first part on, whenever that is
};

Tensor ramp(const Shape& shape, double scale) {
  const Tensor numbers = arange(static_cast<double>(shape.product()), DType::float32);
  return reshape(sin(numbers * static_cast<float>(scale)), shape);
}

bool same(const Results& a, const Results& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i < a.size(); ++i) {
    equal = bitwise_equal(a[i], b[i]);
  }
  return equal;
}

const char* current = "";
std::int64_t current_nth = 0;

/// Where an exception can't pass, the program ends: says which allocation that was.
[[noreturn]] void say_where() {
  std::fprintf(stderr, "%s: terminate() at allocation %lld\n", current, static_cast<long long>(current_nth));
  std::abort();
}

/// The error of a call while allocation `nth` is refused; no value if it needed fewer.
std::optional<std::string> refused(std::int64_t nth, const std::function<Results()>& run, Results& results) {
  std::optional<std::string> error;
  current_nth = nth;
  allocator::trim();  // so that the engine asks the system
  bool was_made = false;
  {
    const Refusal refusal(nth);
    try {
      results = run();
    } catch (const std::bad_alloc&) {
      error = "std::bad_alloc";
    } catch (const Error& problem) {
      error = "Error";
    } catch (const std::exception& problem) {
      error = "another type of error";
    } catch (...) {
      error = "no std::exception";
    }
    was_made = refusal.was_made();
  }
  return was_made ? std::optional(error.value_or("none")) : std::nullopt;
}

std::int64_t allocations_of(const Trial& trial) {
  const Calls calls = trial.begin();
  allocator::trim();
  const Refusal refusal(kNever);
  calls.call();
  return refusal.allocations();
}

/// The allocations that are refused, one at a time.
std::vector<std::int64_t> chosen(std::int64_t count) {
  const bool is_all = std::getenv("DIPTYCH_LONG") != nullptr;
  const std::int64_t most = is_all ? count : is_short_run() ? 60 : 400;
  std::vector<std::int64_t> places;
  std::mt19937_64 random(1);
  for (std::int64_t i = 0; i < std::min(count, most); ++i) {
    const std::int64_t begin = i * count / std::min(count, most);
    const std::int64_t end = (i + 1) * count / std::min(count, most);
    places.push_back(1 + begin + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end - begin)));
  }
  return places;
}

void expect_survives(const Trial& trial) {
  current = trial.name.c_str();
  std::set_terminate(say_where);
  Results expected;
  Results expected_states;
  for (int warm = 0; warm < 3; ++warm) {
    const Calls calls = trial.begin();
    expected = calls.call();
    expected_states = calls.states();
  }
  const std::int64_t count = allocations_of(trial);
  std::int64_t failed = 0;
  const std::int64_t before = live_blocks();
  for (const std::int64_t nth : chosen(count)) {
    const std::int64_t blocks = live_blocks();
    const std::int64_t bytes = allocator::stats().bytes_in_use;
    {
      const Calls calls = trial.begin();
      Results results;
      const std::optional<std::string> error = refused(nth, calls.call, results);
      if (error) {
        ASSERT_TRUE(*error == "std::bad_alloc" || *error == "Error" || *error == "none")
            << trial.name << ", allocation " << nth << " of " << count << ": " << *error;
        if (*error == "none") {
          ASSERT_TRUE(same(results, expected) && same(calls.states(), expected_states))
              << trial.name << ", allocation " << nth << ": it said nothing";
        } else {
          Results after;
          ASSERT_NO_THROW(after = calls.call()) << trial.name << ", allocation " << nth << " of " << count;
          ASSERT_TRUE(same(after, expected) && same(calls.states(), expected_states))
              << trial.name << ": the call after a refused allocation, " << nth << " of " << count << ", is wrong";
          ++failed;
        }
      }
    }
    ASSERT_EQ(allocator::stats().bytes_in_use, bytes)
        << trial.name << ": refusing allocation " << nth << " of " << count << " leaks memory of tensors";
    ASSERT_LE(live_blocks(), blocks + trial.kept)
        << trial.name << ": refusing allocation " << nth << " of " << count << " leaks";
  }
  ASSERT_LE(live_blocks(), before + trial.kept) << trial.name << " leaks";
  std::printf("%s: %lld allocations, %lld refused\n", trial.name.c_str(), static_cast<long long>(count),
              static_cast<long long>(failed));
  EXPECT_GT(failed, 0) << trial.name;
  std::set_terminate(nullptr);
}

/// Two layers, and what is trained of them.
struct Network {
  Variable w1{ramp({5, 8}, 0.7), "w1"};
  Variable b1{ramp({8}, 0.3), "b1"};
  Variable w2{ramp({8, 3}, 0.9), "w2"};

  Tensor operator()(const Tensor& x) const {
    return matmul(layer_norm(tanh(linear(x, w1.value(), b1.value())), {8}, full({8}, 1), full({8}, 0)), w2.value());
  }
  Variables parameters() const { return {w1, b1, w2}; }
  Results values() const { return {copy(w1.value()), copy(b1.value()), copy(w2.value())}; }
};

Tensor loss_of(const Tensor& scores) { return mean(square(scores)) + sum(softmax(scores) * 0.1F); }

TEST(OutOfMemory, OfACallInEager) {
  expect_survives(
      {"eager", [] {
         auto network = std::make_shared<Network>();
         return Calls{[=, x = ramp({4, 5}, 1.1)] { return Results{(*network)(x), loss_of((*network)(x))}; }};
       }});
}

TEST(OutOfMemory, OfGradientsInEager) {
  expect_survives({"eager gradients", [] {
                     auto network = std::make_shared<Network>();
                     return Calls{[=, x = ramp({4, 5}, 1.1)] {
                       auto gradients = value_and_grad([&](const Tensor& y) { return loss_of((*network)(y)); },
                                                       {.weights = network->parameters()});
                       const auto result = gradients(x);
                       Results all = result.weights;
                       all.push_back(result.value);
                       return all;
                     }};
                   }});
}

TEST(OutOfMemory, OfPipelinedDispatch) {
  expect_survives({"pipelined", [] {
                     auto network = std::make_shared<Network>();
                     return Calls{[=, x = ramp({4, 5}, 1.1)] {
                       const PipelinedScope scope;
                       const Tensor y = loss_of((*network)(x));
                       synchronize();
                       return Results{y};
                     }};
                   }});
}

TEST(OutOfMemory, OfCompilingAndCalling) {
  expect_survives(
      {"jit", [] {
         auto network = std::make_shared<Network>();
         auto step = std::make_shared<decltype(jit(std::function<Tensor(const Tensor&)>()))>(
             jit(std::function<Tensor(const Tensor&)>([=](const Tensor& x) { return loss_of((*network)(x)); })));
         return Calls{[=, x = ramp({4, 5}, 1.1)] { return Results{(*step)(x)}; }};
       }});
}

TEST(OutOfMemory, OfACallOfACompiledFunction) {
  expect_survives({"replay", [] {
                     auto network = std::make_shared<Network>();
                     auto step = std::make_shared<decltype(jit(std::function<Tensor(const Tensor&)>()))>(
                         jit(std::function<Tensor(const Tensor&)>(
                             [=](const Tensor& x) { return exp((*network)(x)) + loss_of((*network)(x)); })));
                     const Tensor x = ramp({4, 5}, 1.1);
                     (*step)(x);
                     return Calls{[=] { return Results{(*step)(x)}; }};
                   }});
}

TEST(OutOfMemory, OfATrainingStepLeavesItsStates) {
  for (const bool is_compiled : {false, true}) {
    expect_survives({is_compiled ? "training step, compiled" : "training step", [=] {
                       auto network = std::make_shared<Network>();
                       auto optimizer =
                           std::make_shared<optim::Adam>(network->parameters(), optim::AdamOptions{.lr = 0.1});
                       auto step = std::make_shared<decltype(jit(std::function<Tensor(const Tensor&)>()))>(
                           jit(std::function<Tensor(const Tensor&)>([=](const Tensor& x) {
                             const auto result = value_and_grad([&](const Tensor& y) { return loss_of((*network)(y)); },
                                                                {.weights = network->parameters()})(x);
                             optimizer->step(result.weights);
                             return result.value;
                           })));
                       const Tensor x = ramp({4, 5}, 1.1);
                       if (is_compiled) {
                         (*step)(x);
                       }
                       return Calls{[=] {
                                      Results all(1);  // nothing is to fail behind the step
                                      all[0] = (*step)(x);
                                      return all;
                                    },
                                    [=] {
                                      Results all = network->values();
                                      for (const Variable& state : optimizer->state()) {
                                        all.push_back(copy(state.value()));
                                      }
                                      return all;
                                    }};
                     }});
  }
}

TEST(OutOfMemory, OfGradientsThroughACompiledFunction) {
  expect_survives({"gradient of jit", [] {
                     auto network = std::make_shared<Network>();
                     auto step = std::make_shared<decltype(jit(std::function<Tensor(const Tensor&)>()))>(
                         jit(std::function<Tensor(const Tensor&)>([=](const Tensor& x) { return (*network)(x); })));
                     return Calls{[=, x = ramp({4, 5}, 1.1)] {
                       auto gradients = value_and_grad([&](const Tensor& y) { return loss_of((*step)(y)); },
                                                       {.weights = network->parameters()});
                       const auto result = gradients(x);
                       Results all = result.weights;
                       all.push_back(result.value);
                       return all;
                     }};
                   }});
}

TEST(OutOfMemory, OfControlFlow) {
  expect_survives({"control flow", [] {
                     auto step = std::make_shared<decltype(jit(std::function<Results(const Tensor&)>()))>(
                         jit(std::function<Results(const Tensor&)>([](const Tensor& x) {
                           const auto [last, ys] = scan(
                               [](const Tensor& carry, const Tensor& row) {
                                 const Tensor next = cond(
                                     less(sum(row), full({}, 0)), [&] { return carry * row; },
                                     [&] {
                                       return while_loop([](const Tensor& y) { return less(sum(y), full({}, 9)); },
                                                         [](const Tensor& y) { return y * 2 + 1; }, row,
                                                         {.max_iterations = 5});
                                     });
                                 return std::pair(next, sum(next));
                               },
                               full({5}, 1), x);
                           return Results{last, ys};
                         })));
                     return Calls{[=, x = ramp({4, 5}, 1.1)] { return (*step)(x); }};
                   }});
}

TEST(OutOfMemory, OfKernelsOnThreads) {
  const WithThreads two(2, true);
  expect_survives({"threads",
                   [] {
                     const Tensor a = ramp({300, 200}, 0.1);
                     const Tensor b = ramp({200, 250}, 0.2);
                     return Calls{[=] { return Results{softmax(matmul(a, b)), sum(exp(matmul(a, b)), {0})}; }};
                   },
                   1});
}

TEST(OutOfMemory, OfFilesOfTensors) {
  const Folder folder;
  io::save_safetensors(folder / "x.safetensors", {{{"x", ramp({4, 5}, 1)}, {"y", ramp({3}, 2)}}, {{"a", "b"}}});
  expect_survives({"safetensors", [&] {
                     return Calls{[&] {
                       Results all;
                       for (const auto& [name, tensor] : io::load_safetensors(folder / "x.safetensors").tensors) {
                         all.push_back(tensor);
                       }
                       return all;
                     }};
                   }});
}

#ifdef DIPTYCH_WITH_ONNX
std::string model_file(const Folder& folder) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", DType::float32, {2, 6});
  body.node("Identity", {"go"}, {"still"}).node("Mul", {"v", "half"}, {"next"}).output("still").output("next");
  Builder model;
  model.input("x", DType::float32, {"batch", 2, 6, 6})
      .constant("w", ramp({3, 2, 3, 3}, 0.4))
      .constant("half", full({}, 0.5))
      .constant("trips", Tensor::scalar(std::int64_t{3}))
      .constant("yes", Tensor::from({true}, {}))
      .integers("shape", {2, -1})
      .integers("starts", {0})
      .integers("ends", {6})
      .integers("axes", {1})
      .node("Conv", {"x", "w"}, {"c"}, {{"pads", onnx::AttributeValue(std::vector<std::int64_t>{1, 1, 1, 1})}})
      .node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", onnx::AttributeValue(std::vector<std::int64_t>{2, 2})}})
      .node("Reshape", {"p", "shape"}, {"f"})
      .node("Slice", {"f", "starts", "ends", "axes"}, {"s"})
      .node("Loop", {"trips", "yes", "s"}, {"l"}, {{"body", onnx::AttributeValue(body.body())}})
      .node("Softmax", {"l"}, {"y"}, {{"axis", onnx::AttributeValue(std::int64_t{-1})}})
      .output("y");
  onnx::write_model(*model.model(), folder / "m.onnx");
  return folder / "m.onnx";
}

TEST(OutOfMemory, OfReadingAndImportingAModel) {
  const Folder folder;
  const std::string file = model_file(folder);
  expect_survives({"onnx, eager", [&] {
                     return Calls{[&, x = ramp({2, 2, 6, 6}, 0.3)] {
                       onnx::ImportedModel model(std::make_shared<const onnx::Model>(onnx::read_model(file)));
                       return model.call(Results{x});
                     }};
                   }});
}

TEST(OutOfMemory, OfCallingAnImportedModel) {
  const Folder folder;
  const auto file = std::make_shared<const onnx::Model>(onnx::read_model(model_file(folder)));
  expect_survives({"onnx, first call", [&] {
                     auto model = std::make_shared<onnx::ImportedModel>(file);
                     return Calls{[=, x = ramp({2, 2, 6, 6}, 0.3)] { return model->call(Results{x}); }};
                   }});
  expect_survives(
      {"onnx, compiled", [&] {
         auto model = std::make_shared<onnx::ImportedModel>(file);
         auto step = std::make_shared<decltype(jit(std::function<Results(const Tensor&)>()))>(
             jit(std::function<Results(const Tensor&)>([=](const Tensor& x) { return model->call(Results{x}); })));
         return Calls{[=, x = ramp({2, 2, 6, 6}, 0.3)] { return (*step)(x); }};
       }});
}
#endif

}  // namespace
}  // namespace diptych::testing
