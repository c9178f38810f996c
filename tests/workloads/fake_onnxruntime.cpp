// A library with the entrance of ONNX Runtime, to play what a real one doesn't do on demand. Its sessions have one
// input, and give it back. $FAKE_ORT_VERSION is its version, $FAKE_ORT_LACKS a function that its table lacks,
// $FAKE_ORT_FAILS one that fails, $FAKE_ORT_PROFILE what its profiles are instead, $FAKE_ORT_LOG the file that gets
// what it was told, and how much was never released.

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
  std::string profile;
};
struct Session {
  std::string profile;
  int runs = 0;
};
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

/// As the library writes them: a first call that takes a second, then such of 5 us, in which two nodes take 1 and 3 us,
/// one of them twice.
std::string profile_of(int runs) {
  std::string events = R"([{"cat":"Session","pid":1,"tid":1,"dur":7,"ts":1,"ph":"X","name":"model_loading","args":{}})";
  int time = 10;
  for (int run = 0; run < runs; ++run) {
    const int unit = run == 0 ? 200'000 : 1;
    const auto zone = [&](const std::string& category, const std::string& name, int begin, int units,
                          const std::string& op) {
      events += ",\n{\"cat\":\"" + category + "\",\"pid\":1,\"tid\":1,\"dur\":" + std::to_string(units * unit) +
                ",\"ts\":" + std::to_string(time + begin * unit) + ",\"ph\":\"X\",\"name\":\"" + name +
                "\",\"args\":{\"op_name\":\"" + op + "\"}}";
    };
    zone("Node", "MatMul_0/MatMulAddFusion_fence_before", 0, 0, "FusedMatMul");
    zone("Node", "MatMul_0/MatMulAddFusion_kernel_time", 0, 1, "FusedMatMul");
    zone("Node", "LayerNormalization_kernel_time", 1, 1, "LayerNormalization");
    zone("Node", "LayerNormalization_kernel_time", 2, 2, "LayerNormalization");
    zone("Session", "SequentialExecutor::Execute", 0, 5, "");
    zone("Session", "model_run", 0, 5, "");
    time += 5 * unit;
  }
  return events + "\n]\n";
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
  set(kEnableProfiling, [](SessionOptions* options, const char* prefix) -> Status* {
    options->profile = prefix;
    return nullptr;
  });
  set(kSessionEndProfiling, [](Session* session, Allocator*, char** out) -> Status* {
    const std::string path = session->profile + "_2026.json";
    if (std::FILE* const file = std::fopen(path.c_str(), "w")) {
      const std::string instead = told("FAKE_ORT_PROFILE");
      std::fputs((instead.empty() ? profile_of(session->runs) : instead).c_str(), file);
      std::fclose(file);
    }
    return name_of(path.c_str(), out);
  });
  set(kReleaseSessionOptions, release<SessionOptions>);
  set(kCreateSession,
      [](const Environment*, const char* path, const SessionOptions* options, Session** out) -> Status* {
        log(std::string(path) + " level " + std::to_string(options->level) + " threads " +
            std::to_string(options->threads));
        *out = made(Session{options->profile, 0});
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
      [](Session* session, const RunOptions*, const char* const*, const Value* const* inputs, std::size_t,
         const char* const*, std::size_t, Value** outputs) -> Status* {
        ++session->runs;
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
  set(kRunWithBinding, [](Session* session, const RunOptions*, const Binding* binding) -> Status* {
    ++session->runs;
    binding->output->data = binding->input->data;
    return nullptr;
  });
  set_failing(kCreateEnv);
  set_failing(kCreateSession);
  set_failing(kEnableProfiling);
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
