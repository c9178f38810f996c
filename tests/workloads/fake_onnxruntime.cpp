// A library with the entrance of ONNX Runtime, to play what a real one doesn't do on demand. Its sessions have one
// input, and give it back. $FAKE_ORT_VERSION is its version, $FAKE_ORT_LACKS a function that its table lacks,
// $FAKE_ORT_FAILS one that fails, $FAKE_ORT_LOG the file that gets what it was told, and how much was never released.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "workloads/arms/onnxruntime/ort_abi.h"

namespace diptych::ort {

struct Status {
  std::string message;
};
struct Environment {};
struct SessionOptions {
  int level = -1;
  int threads = -1;
};
struct Session {};
struct Value {
  int element = 0;
  std::vector<std::int64_t> shape;
  std::vector<char> data;
};
struct TypeAndShape {
  const Value* value;
};
struct Binding {
  const Value* input = nullptr;
  Value* output = nullptr;
};

namespace {

int alive = 0;

template <class T>
T* made(T object) {
  ++alive;
  return new T(std::move(object));
}
template <class T>
void release(T* object) {
  alive -= object != nullptr ? 1 : 0;
  delete object;
}

std::string told(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void log(const std::string& line) {
  if (std::FILE* const file = std::fopen(told("FAKE_ORT_LOG").c_str(), "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

Status* failure() { return made(Status{"\x1b[31m\xff \"quoted\"\n" + std::string(2'000'000, 'x')}); }

std::size_t bytes_of(int element) {
  for (const Element& known : kElements) {
    if (known.value == element) {
      return known.bytes;
    }
  }
  return 0;
}

Status* name_of(const char* name, char** out) {
  *out = strdup(name);
  ++alive;
  return nullptr;
}

AnyFunction table[150];

template <class Signature>
void set(const Entry<Signature>& entry, std::type_identity_t<Signature>* function) {
  table[entry.index] = told("FAKE_ORT_LACKS") == entry.name ? nullptr : reinterpret_cast<AnyFunction>(function);
}
template <class... Parameters>
void set_failing(const Entry<Status*(Parameters...)>& entry) {
  if (told("FAKE_ORT_FAILS") == entry.name) {
    set(entry, [](Parameters...) { return failure(); });
  }
}

void fill() {
  set(kGetErrorMessage, [](const Status* status) { return status->message.c_str(); });
  set(kReleaseStatus, release<Status>);
  set(kCreateEnv, [](int, const char*, Environment** out) -> Status* {
    std::puts("a library that talks");  // on standard output, which is for answers alone
    *out = made(Environment{});
    return nullptr;
  });
  set(kReleaseEnv, [](Environment* environment) {
    release(environment);
    log("left " + std::to_string(alive));
  });
  set(kCreateSessionOptions, [](SessionOptions** out) -> Status* {
    *out = made(SessionOptions{});
    return nullptr;
  });
  set(kSetSessionGraphOptimizationLevel, [](SessionOptions* options, int level) -> Status* {
    options->level = level;
    return nullptr;
  });
  set(kSetIntraOpNumThreads, [](SessionOptions* options, int threads) -> Status* {
    options->threads = threads;
    return nullptr;
  });
  set(kSetInterOpNumThreads, [](SessionOptions*, int) -> Status* { return nullptr; });
  set(kReleaseSessionOptions, release<SessionOptions>);
  set(kCreateSession,
      [](const Environment*, const char* path, const SessionOptions* options, Session** out) -> Status* {
        log(std::string(path) + " level " + std::to_string(options->level) + " threads " +
            std::to_string(options->threads));
        *out = made(Session{});
        return nullptr;
      });
  set(kReleaseSession, release<Session>);
  const auto one = [](const Session*, std::size_t* out) -> Status* {
    *out = 1;
    return nullptr;
  };
  set(kSessionGetInputCount, one);
  set(kSessionGetOutputCount, one);
  set(kSessionGetInputName, [](const Session*, std::size_t, Allocator*, char** out) { return name_of("in", out); });
  set(kSessionGetOutputName, [](const Session*, std::size_t, Allocator*, char** out) { return name_of("out", out); });
  set(kGetAllocatorWithDefaultOptions, [](Allocator**) -> Status* { return nullptr; });
  set(kAllocatorFree, [](Allocator*, void* memory) -> Status* {
    --alive;
    std::free(memory);
    return nullptr;
  });
  set(kCreateTensorAsOrtValue,
      [](Allocator*, const std::int64_t* shape, std::size_t rank, int element, Value** out) -> Status* {
        std::size_t bytes = bytes_of(element);
        for (std::size_t i = 0; i < rank; ++i) {
          bytes *= static_cast<std::size_t>(shape[i]);
        }
        *out = made(Value{element, {shape, shape + rank}, std::vector<char>(bytes)});
        return nullptr;
      });
  set(kReleaseValue, release<Value>);
  set(kIsTensor, [](const Value*, int* out) -> Status* {
    *out = 1;
    return nullptr;
  });
  set(kGetTensorMutableData, [](Value* value, void** out) -> Status* {
    *out = value->data.data();
    return nullptr;
  });
  set(kGetTensorTypeAndShape, [](const Value* value, TypeAndShape** out) -> Status* {
    *out = made(TypeAndShape{value});
    return nullptr;
  });
  set(kReleaseTensorTypeAndShapeInfo, release<TypeAndShape>);
  set(kGetTensorElementType, [](const TypeAndShape* type, int* out) -> Status* {
    *out = type->value->element;
    return nullptr;
  });
  set(kGetDimensionsCount, [](const TypeAndShape* type, std::size_t* out) -> Status* {
    *out = type->value->shape.size();
    return nullptr;
  });
  set(kGetDimensions, [](const TypeAndShape* type, std::int64_t* out, std::size_t rank) -> Status* {
    std::copy_n(type->value->shape.begin(), rank, out);
    return nullptr;
  });
  set(kRun,
      [](Session*, const RunOptions*, const char* const*, const Value* const* inputs, std::size_t, const char* const*,
         std::size_t, Value** outputs) -> Status* {
        outputs[0] = made(Value{*inputs[0]});
        return nullptr;
      });
  set(kCreateIoBinding, [](Session*, Binding** out) -> Status* {
    *out = made(Binding{});
    return nullptr;
  });
  set(kReleaseIoBinding, release<Binding>);
  set(kBindInput, [](Binding* binding, const char* name, const Value* value) -> Status* {
    binding->input = std::string(name) == "in" ? value : nullptr;
    return nullptr;
  });
  set(kBindOutput, [](Binding* binding, const char* name, const Value* value) -> Status* {
    binding->output = std::string(name) == "out" ? const_cast<Value*>(value) : nullptr;
    return nullptr;
  });
  set(kRunWithBinding, [](Session*, const RunOptions*, const Binding* binding) -> Status* {
    binding->output->data = binding->input->data;
    return nullptr;
  });
  set_failing(kCreateEnv);
  set_failing(kCreateSession);
  set_failing(kRun);
  set_failing(kRunWithBinding);
}

const char* version() {
  static const std::string text = told("FAKE_ORT_VERSION");
  return text.empty() ? "1.99.0" : text.c_str();
}

const AnyFunction* table_of(std::uint32_t wanted) {
  fill();
  return wanted == kApiVersion ? table : nullptr;
}

const ApiBase base{table_of, version};

}  // namespace
}  // namespace diptych::ort

extern "C" const diptych::ort::ApiBase* OrtGetApiBase() { return &diptych::ort::base; }
