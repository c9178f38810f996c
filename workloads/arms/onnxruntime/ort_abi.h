#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The part of ONNX Runtime's C interface that the arm calls, in our own words. The library exports one function,
/// OrtGetApiBase, which leads to a table of functions, OrtApi. The table only ever grows at its end: a function keeps
/// its index in all versions from the one that brought it. Source of indices, signatures and values:
/// include/onnxruntime/core/session/onnxruntime_c_api.h of ONNX Runtime 1.5 to 1.30, and the sizes that
/// onnxruntime_c_api.cc asserts for the table of each version (its last function is at 101 in version 1, 118, 124, 126,
/// and 149 in version 5).
namespace diptych::ort {

struct Allocator;
struct Binding;
struct Environment;
struct RunOptions;
struct Session;
struct SessionOptions;
struct Status;  ///< null: success
struct TypeAndShape;
struct Value;

using AnyFunction = void (*)();

/// What OrtGetApiBase returns.
struct ApiBase {
  /// The table as programs that know this version expect it; null if it is newer than the library.
  const AnyFunction* (*table)(std::uint32_t version);
  const char* (*version)();  ///< of the library: "1.30.0"
};
inline constexpr const char* kEntrance = "OrtGetApiBase";
using Entrance = const ApiBase*();

/// The version whose table has all functions below, and the library that brought it: 1.5.
inline constexpr std::uint32_t kApiVersion = 5;

/// A function of the table.
template <class Signature>
struct Entry {
  std::size_t index;
  const char* name;
};

inline constexpr Entry<const char*(const Status*)> kGetErrorMessage{2, "GetErrorMessage"};
inline constexpr Entry<Status*(int severity, const char* log_name, Environment**)> kCreateEnv{3, "CreateEnv"};
inline constexpr Entry<Status*(const Environment*, const char* path, const SessionOptions*, Session**)> kCreateSession{
    7, "CreateSession"};
/// Outputs that are null are allocated.
inline constexpr Entry<Status*(Session*, const RunOptions*, const char* const* input_names, const Value* const* inputs,
                               std::size_t input_count, const char* const* output_names, std::size_t output_count,
                               Value** outputs)>
    kRun{9, "Run"};
inline constexpr Entry<Status*(SessionOptions**)> kCreateSessionOptions{10, "CreateSessionOptions"};
/// The file's name is the prefix, the time, and ".json".
inline constexpr Entry<Status*(SessionOptions*, const char* prefix)> kEnableProfiling{14, "EnableProfiling"};
inline constexpr Entry<Status*(SessionOptions*, int level)> kSetSessionGraphOptimizationLevel{
    23, "SetSessionGraphOptimizationLevel"};
inline constexpr Entry<Status*(SessionOptions*, int)> kSetIntraOpNumThreads{24, "SetIntraOpNumThreads"};
inline constexpr Entry<Status*(SessionOptions*, int)> kSetInterOpNumThreads{25, "SetInterOpNumThreads"};
inline constexpr Entry<Status*(const Session*, std::size_t*)> kSessionGetInputCount{30, "SessionGetInputCount"};
inline constexpr Entry<Status*(const Session*, std::size_t*)> kSessionGetOutputCount{31, "SessionGetOutputCount"};
inline constexpr Entry<Status*(const Session*, std::size_t, Allocator*, char**)> kSessionGetInputName{
    36, "SessionGetInputName"};
inline constexpr Entry<Status*(const Session*, std::size_t, Allocator*, char**)> kSessionGetOutputName{
    37, "SessionGetOutputName"};
inline constexpr Entry<Status*(Allocator*, const std::int64_t* shape, std::size_t rank, int element, Value**)>
    kCreateTensorAsOrtValue{48, "CreateTensorAsOrtValue"};
inline constexpr Entry<Status*(const Value*, int*)> kIsTensor{50, "IsTensor"};
inline constexpr Entry<Status*(Value*, void**)> kGetTensorMutableData{51, "GetTensorMutableData"};
inline constexpr Entry<Status*(const TypeAndShape*, int*)> kGetTensorElementType{60, "GetTensorElementType"};
inline constexpr Entry<Status*(const TypeAndShape*, std::size_t*)> kGetDimensionsCount{61, "GetDimensionsCount"};
inline constexpr Entry<Status*(const TypeAndShape*, std::int64_t*, std::size_t)> kGetDimensions{62, "GetDimensions"};
inline constexpr Entry<Status*(const Value*, TypeAndShape**)> kGetTensorTypeAndShape{65, "GetTensorTypeAndShape"};
inline constexpr Entry<Status*(Allocator*, void*)> kAllocatorFree{76, "AllocatorFree"};
inline constexpr Entry<Status*(Allocator**)> kGetAllocatorWithDefaultOptions{78, "GetAllocatorWithDefaultOptions"};
inline constexpr Entry<void(Environment*)> kReleaseEnv{92, "ReleaseEnv"};
inline constexpr Entry<void(Status*)> kReleaseStatus{93, "ReleaseStatus"};
inline constexpr Entry<void(Session*)> kReleaseSession{95, "ReleaseSession"};
inline constexpr Entry<void(Value*)> kReleaseValue{96, "ReleaseValue"};
inline constexpr Entry<void(TypeAndShape*)> kReleaseTensorTypeAndShapeInfo{99, "ReleaseTensorTypeAndShapeInfo"};
inline constexpr Entry<void(SessionOptions*)> kReleaseSessionOptions{100, "ReleaseSessionOptions"};
/// Gives the name of the file that was written.
inline constexpr Entry<Status*(Session*, Allocator*, char**)> kSessionEndProfiling{110, "SessionEndProfiling"};
inline constexpr Entry<Status*(Session*, const RunOptions*, const Binding*)> kRunWithBinding{133, "RunWithBinding"};
inline constexpr Entry<Status*(Session*, Binding**)> kCreateIoBinding{134, "CreateIoBinding"};
inline constexpr Entry<void(Binding*)> kReleaseIoBinding{135, "ReleaseIoBinding"};
inline constexpr Entry<Status*(Binding*, const char* name, const Value*)> kBindInput{136, "BindInput"};
inline constexpr Entry<Status*(Binding*, const char* name, const Value*)> kBindOutput{137, "BindOutput"};

inline constexpr int kLogErrors = 3;  ///< OrtLoggingLevel

/// GraphOptimizationLevel, and the arms' names for it.
struct Level {
  const char* name;
  int value;
  const char* description;
};
inline constexpr Level kLevels[] = {{"all", 99, "all optimisations"},
                                    {"extended", 2, "extended optimisations"},
                                    {"basic", 1, "basic optimisations"},
                                    {"off", 0, "no optimisations"}};

/// ONNXTensorElementDataType, and the protocol's names for them.
struct Element {
  const char* dtype;
  int value;
  std::size_t bytes;
};
inline constexpr Element kElements[] = {{"f32", 1, 4},  {"u8", 2, 1},    {"i32", 6, 4}, {"i64", 7, 8}, {"bool", 9, 1},
                                        {"f64", 11, 8}, {"bf16", 16, 2}, {"i8", 3, 1},  {"u16", 4, 2}, {"i16", 5, 2},
                                        {"f16", 10, 2}, {"u32", 12, 4},  {"u64", 13, 8}};

}  // namespace diptych::ort
