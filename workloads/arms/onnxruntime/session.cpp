#include "workloads/arms/onnxruntime/session.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "workloads/arms/onnxruntime/node_times.h"

namespace diptych::ort {
namespace {

template <class Matches>
const Element& element_where(const Matches& matches, const std::string& wanted) {
  const auto* const found = std::find_if(std::begin(kElements), std::end(kElements), matches);
  if (found == std::end(kElements)) {
    throw std::runtime_error(fmt::format("elements of type {} have no form here", wanted));
  }
  return *found;
}

const Element& element_named(const std::string& dtype) {
  return element_where([&](const Element& element) { return element.dtype == dtype; }, dtype);
}

const Element& element_of(int value) {
  return element_where([&](const Element& element) { return element.value == value; },
                       fmt::format("{} (ONNXTensorElementDataType)", value));
}

std::size_t bytes_of(const Element& element, const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), element.bytes, [](std::size_t product, std::int64_t length) {
    return product * static_cast<std::size_t>(length);
  });
}

class SessionModel final : public arms::Model {
 public:
  /// `profile`: the first part of the name of a file for what nodes take; empty: none.
  SessionModel(const Library& library, Environment& environment, const Level& level, const arms::Load& wanted,
               const std::string& profile = {})
      : library_(library),
        environment_(environment),
        level_(level),
        wanted_(wanted),
        run_(library.function(kRunWithBinding)) {
    library_.call(kGetAllocatorWithDefaultOptions, &allocator_);
    for (const arms::Input& input : wanted.inputs) {
      inputs_.push_back(tensor_of(input));
    }
    const auto start = std::chrono::steady_clock::now();
    const auto options = library_.create(kCreateSessionOptions, kReleaseSessionOptions);
    library_.call(kSetSessionGraphOptimizationLevel, options.get(), level.value);
    library_.call(kSetIntraOpNumThreads, options.get(), wanted.threads);
    library_.call(kSetInterOpNumThreads, options.get(), 1);
    if (!profile.empty()) {
      library_.call(kEnableProfiling, options.get(), profile.c_str());
    }
    session_ = library_.create(kCreateSession, kReleaseSession, &environment, wanted.model.c_str(), options.get());
    seconds_ = arms::seconds_since(start);
    input_names_ = names(kSessionGetInputCount, kSessionGetInputName);
    output_names_ = names(kSessionGetOutputCount, kSessionGetOutputName);
    if (input_names_.size() != inputs_.size()) {
      throw std::runtime_error(
          fmt::format("the model has {} inputs for this library, not {}", input_names_.size(), inputs_.size()));
    }
  }

  /// That creating the session took: the library optimises the model meanwhile.
  double seconds() const { return seconds_; }

  void run() override {
    if (binding_ == nullptr) {
      bind();
    } else {
      library_.check(run_(session_.get(), nullptr, binding_.get()), kRunWithBinding.name);
    }
  }

  /// By a session of its own, because a session that has a profile is slower.
  std::vector<arms::NodeTime> profile(std::int64_t count, const std::string& folder) override {
    SessionModel profiled(library_, environment_, level_, wanted_, folder + "/profile");
    for (std::int64_t i = 0; i <= count; ++i) {
      profiled.run();
    }
    return node_times(profiled.end_profile(), count);
  }

  std::vector<arms::Output> results() override {
    run();
    std::vector<arms::Output> results;
    for (const Owned<Value>& output : outputs_) {
      results.push_back(described(output.get()));
    }
    return results;
  }

 private:
  Owned<Value> tensor_of(const arms::Input& input) const {
    const Element& element = element_named(input.dtype);
    auto tensor = library_.create(kCreateTensorAsOrtValue, kReleaseValue, allocator_, input.shape.data(),
                                  input.shape.size(), element.value);
    void* data = nullptr;
    library_.call(kGetTensorMutableData, tensor.get(), &data);
    input.read_into(data, bytes_of(element, input.shape));
    return tensor;
  }

  using Name = Entry<Status*(const Session*, std::size_t, Allocator*, char**)>;
  std::vector<std::string> names(const Entry<Status*(const Session*, std::size_t*)>& count, const Name& name) const {
    std::size_t number = 0;
    library_.call(count, session_.get(), &number);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < number; ++i) {
      char* text = nullptr;
      library_.call(name, session_.get(), i, allocator_, &text);
      all.emplace_back(text != nullptr ? text : "");
      library_.call(kAllocatorFree, allocator_, text);
    }
    return all;
  }

  /// The first call: the library allocates the outputs, which are bound for the calls after it.
  void bind() {
    const auto pointers = [](const std::vector<std::string>& all) {
      std::vector<const char*> list;
      std::transform(all.begin(), all.end(), std::back_inserter(list), std::mem_fn(&std::string::c_str));
      return list;
    };
    const std::vector<const char*> input_names = pointers(input_names_);
    const std::vector<const char*> output_names = pointers(output_names_);
    std::vector<const Value*> inputs;
    std::transform(inputs_.begin(), inputs_.end(), std::back_inserter(inputs), std::mem_fn(&Owned<Value>::get));
    std::vector<Value*> outputs(output_names.size());
    const auto release = library_.function(kReleaseValue);
    Status* const status = library_.function(kRun)(session_.get(), nullptr, input_names.data(), inputs.data(),
                                                   inputs.size(), output_names.data(), outputs.size(), outputs.data());
    for (Value* const output : outputs) {
      outputs_.emplace_back(output, release);
    }
    library_.check(status, kRun.name);
    auto binding = library_.create(kCreateIoBinding, kReleaseIoBinding, session_.get());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      library_.call(kBindInput, binding.get(), input_names[i], inputs[i]);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      require_tensor(outputs[i], output_names[i]);
      library_.call(kBindOutput, binding.get(), output_names[i], outputs[i]);
    }
    binding_ = std::move(binding);
  }

  /// The file.
  std::string end_profile() {
    char* text = nullptr;
    library_.call(kSessionEndProfiling, session_.get(), allocator_, &text);
    const std::string path = text != nullptr ? text : "";
    library_.call(kAllocatorFree, allocator_, text);
    return path;
  }

  void require_tensor(const Value* value, const char* name) const {
    int is_tensor = 0;
    if (value != nullptr) {
      library_.call(kIsTensor, value, &is_tensor);
    }
    if (is_tensor == 0) {
      throw std::runtime_error(fmt::format("output {} is no tensor", name));
    }
  }

  arms::Output described(Value* value) const {
    const auto type = library_.create(kGetTensorTypeAndShape, kReleaseTensorTypeAndShapeInfo, value);
    int element_value = 0;
    std::size_t rank = 0;
    library_.call(kGetTensorElementType, type.get(), &element_value);
    library_.call(kGetDimensionsCount, type.get(), &rank);
    const Element& element = element_of(element_value);
    arms::Output output{.dtype = element.dtype, .shape = std::vector<std::int64_t>(rank)};
    library_.call(kGetDimensions, type.get(), output.shape.data(), rank);
    void* data = nullptr;
    library_.call(kGetTensorMutableData, value, &data);
    output.data = data;
    output.bytes = bytes_of(element, output.shape);
    return output;
  }

  const Library& library_;
  Environment& environment_;
  const Level& level_;
  arms::Load wanted_;
  Status* (*run_)(Session*, const RunOptions*, const Binding*);
  Allocator* allocator_ = nullptr;  ///< the library's own
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  double seconds_ = 0;
  // In the order of their use: what is used is released after its users.
  Owned<Session> session_{nullptr, nullptr};
  std::vector<Owned<Value>> inputs_;
  std::vector<Owned<Value>> outputs_;
  Owned<Binding> binding_{nullptr, nullptr};
};

}  // namespace

arms::Loaded load_session(const Library& library, Environment& environment, const Level& level,
                          const arms::Load& wanted) {
  auto model = std::make_unique<SessionModel>(library, environment, level, wanted);
  const double seconds = model->seconds();
  return {std::move(model), seconds};
}

}  // namespace diptych::ort
