#include "workloads/arms/external_process.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/parallel.h"
#include "framework/core/tensor_body.h"
#include "framework/io/atomic_file.h"
#include "framework/io/json_text.h"
#include "framework/ops/elementwise.h"
#include "workloads/processes/child.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Timeouts in seconds. Frameworks take long to start and to load; the time of a run is known from earlier runs.
constexpr double kStartSeconds = 120;
constexpr double kLoadSeconds = 600;
constexpr double kFirstCallSeconds = 600;
constexpr double kRunSeconds = 60;  ///< of all runs together, in addition to `kRunFactor` times the expected time
constexpr double kRunFactor = 50;
constexpr std::size_t kMostLine = 1 << 20;  ///< bytes of an answer
constexpr std::size_t kMostCounters = 32;
constexpr std::size_t kMostName = 40;  ///< of a counter
constexpr double kMostRuns = 1e9;      ///< of a node in a call

std::string write_raw(const Tensor& tensor, const fs::path& path) {
  const Tensor dense = contiguous(tensor);
  const auto bytes = static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype());
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  // A new file in place of what is there: the arm may have put there what never takes the bytes.
  std::error_code ignored;
  fs::remove(path, ignored);
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "wbx"));
  if (file == nullptr || std::fwrite(dense.body()->data, 1, bytes, file.get()) != bytes ||
      std::fflush(file.get()) != 0) {
    throw FileError(fmt::format("can't write {}: {}", quote(path.string()), std::strerror(errno)));
  }
  return path.string();
}

json shape_json(const Shape& shape) {
  json lengths = json::array();
  for (const std::int64_t length : shape) {
    lengths.push_back(length);
  }
  return lengths;
}

/// Writes each to FOLDER/PREFIX_N.bin.
json described_files(const std::vector<Tensor>& tensors, const fs::path& folder, std::string_view prefix) {
  json list = json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    list.push_back({{"dtype", name_of(tensors[i].dtype())},
                    {"shape", shape_json(tensors[i].shape())},
                    {"file", write_raw(tensors[i], folder / fmt::format("{}_{}.bin", prefix, i))}});
  }
  return list;
}

/// As many threads as the engine's arms have for libraries that read these variables.
std::vector<std::string> arm_environment() {
  std::vector<std::string> environment = own_environment();
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const std::string prefix = fmt::format("{}=", name);
    std::erase_if(environment, [&](const std::string& variable) { return variable.starts_with(prefix); });
    environment.push_back(prefix + std::to_string(thread_count()));
  }
  return environment;
}

bool is_plain(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= kMostName && std::all_of(name.begin(), name.end(), is_letter);
}

}  // namespace

ExternalProcess::ExternalProcess(const std::vector<std::string>& command, Clock clock, double patience)
    : clock_(std::move(clock)), patience_(patience), started_(clock_()), grace_(kRunSeconds) {
  try {
    child_ = std::make_unique<Child>(command, arm_environment(),
                                     ChildOptions{.is_told = true, .search_path = true, .most_line = kMostLine});
  } catch (const Error& error) {
    throw ArmFailure(error.what());
  }
}

ExternalProcess::~ExternalProcess() {
  if (child_ == nullptr || !child_->write_line(R"({"do":"exit"})", 0)) {
    return;
  }
  std::string how;  // it may have something to write; it is killed if that takes too long
  for (int i = 0; i < 50 && !child_->has_ended(how); ++i) {
    usleep(10'000);
  }
}

void ExternalProcess::end() {
  cpu_seconds();
  child_.reset();
}

void ExternalProcess::fail(const std::string& why) {
  end();
  throw ArmFailure(fmt::format("{}: {}", doing_, why));
}

json ExternalProcess::ask(const json& request, double usual_seconds) {
  const double most_seconds = usual_seconds * patience_;
  doing_ = request.value("do", "");
  if (child_ == nullptr) {
    throw ArmFailure(doing_ + ": its process has ended before");
  }
  std::string line;
  const Child::Read before = child_->read_line(line, 0);
  if (before == Child::Read::line || before == Child::Read::too_long || !child_->pending().empty()) {
    fail(fmt::format("it says {} before it is asked; what else it has to say belongs on standard error",
                     quote((line + child_->pending()).substr(0, 80))));
  }
  std::string asked;
  try {
    asked = request.dump();
  } catch (const json::type_error&) {
    fail("the path of the model, or of the temporary folder, isn't UTF-8, which JSON needs; rename or move it");
  }
  deadline_ = clock_() + most_seconds;
  // The reply shows whether it was listening; it may also have said why it ended.
  child_->write_line(asked, static_cast<int>(std::min(most_seconds, 60.0) * 1000));
  for (;;) {
    const double left = deadline_ - clock_();
    if (!(left > 0)) {
      fail(fmt::format("no answer within {:.3g} s: it hangs", most_seconds));
    }
    Child::Read read = child_->read_line(line, static_cast<int>(std::min(left, 1.0) * 1000) + 1);
    std::string how;
    // One that it has left behind may hold its standard output open. What it wrote before its end comes first.
    bool ended = read == Child::Read::timeout && child_->has_ended(how);
    if (ended) {
      read = child_->read_line(line, 0);
    }
    if (read == Child::Read::line) {
      break;
    }
    if (read == Child::Read::too_long) {
      fail("its answer is longer than a megabyte");
    }
    if (read == Child::Read::end || ended) {
      for (int i = 0; i < 100 && !ended; ++i) {
        ended = child_->has_ended(how);
        usleep(ended ? 0 : 10'000);
      }
      fail(!ended ? "it has closed its standard output" : how.empty() ? "it has ended" : "it " + how);
    }
  }
  json answer = io::json_or_discarded(line);
  if (!answer.is_object()) {
    fail(fmt::format("{} on its standard output is no answer; what else it has to say belongs on standard error",
                     quote(line.substr(0, 80))));
  }
  if (const auto error = answer.find("error"); error != answer.end()) {
    const std::string text = error->is_string() ? error->get<std::string>() : error->dump();
    fail(text.substr(0, 400));
  }
  return answer;
}

json ExternalProcess::describe() {
  json answer = ask({{"do", "describe"}}, kStartSeconds);
  const auto protocol = answer.find("protocol");
  if (protocol == answer.end() || *protocol != kArmProtocol) {
    fail(fmt::format("it speaks protocol {}, this program {}",
                     protocol == answer.end() ? "none" : protocol->dump().substr(0, 20), kArmProtocol));
  }
  number(answer, "threads", kThreadsRange);
  number(answer, "overhead_nanoseconds", kOverheadRange);
  return answer;
}

std::optional<double> ExternalProcess::number(const json& answer, const char* name, const Range& range) {
  try {
    return number_in(answer, name, range);
  } catch (const ArmFailure& failure) {
    fail(failure.what());
  }
}

ExternalProcess::Loaded ExternalProcess::load(const std::string& model, const std::vector<Tensor>& inputs,
                                              const std::string& folder, const ArmGradients& gradients) {
  json request = {{"do", "load"},
                  {"model", model},
                  {"inputs", described_files(inputs, folder, "input")},
                  {"threads", thread_count()}};
  if (!gradients.by.empty()) {
    request["gradients"] = {{"by", gradients.by},
                            {"cotangents", described_files(gradients.cotangents, folder, "cotangent")}};
    if (!gradients.optimizer.is_null()) {
      request["gradients"]["optimizer"] = gradients.optimizer;
    }
  }
  const double start = clock_();
  const json answer = ask(request, kLoadSeconds);
  const double passed = elapsed_since(clock_, start);
  Loaded loaded;
  loaded.load_seconds = number(answer, "load_seconds", {0, passed}).value_or(0);
  loaded.compile_seconds = number(answer, "compile_seconds", {0, passed - loaded.load_seconds}).value_or(0);
  return loaded;
}

std::vector<Tensor> ExternalProcess::check(const std::string& folder, const std::vector<TensorType>& types,
                                           double* moved) {
  const double start = clock_();
  const json answer = ask({{"do", "check"}, {"folder", folder}}, kFirstCallSeconds);
  const auto outputs = answer.find("outputs");
  if (outputs == answer.end() || !outputs->is_array()) {
    fail("its answer has no list of outputs");
  }
  if (outputs->size() != types.size()) {
    fail(fmt::format("wrong results: it gives {} outputs, not {}", outputs->size(), types.size()));
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < types.size(); ++i) {
    tensors.push_back(read_output((*outputs)[i], types[i], folder, i));
  }
  if (moved != nullptr) {
    const std::optional<double> said = number(answer, "moved", {0, std::numeric_limits<double>::max()});
    if (!said) {
      fail("it doesn't say how far a training step moved the weights");
    }
    *moved = *said;
  }
  if (quickest_call_ == 0) {
    quickest_call_ = elapsed_since(clock_, start);
  }
  return tensors;
}

Tensor ExternalProcess::read_output(const json& described, const TensorType& type, const std::string& folder,
                                    std::size_t index) {
  const auto text = [&](const char* name) {
    const auto found = described.is_object() ? described.find(name) : described.end();
    return described.is_object() && found != described.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const json shape = described.is_object() ? described.value("shape", json()) : json();
  if (text("dtype").empty() || text("file").empty() || !shape.is_array()) {
    fail(fmt::format("output {} isn't described by dtype, shape and file", index));
  }
  if (text("dtype") != name_of(type.dtype) || shape != shape_json(type.shape)) {
    fail(fmt::format("wrong results: output {} is {}{}, not {}", index, quote(text("dtype").substr(0, 20)),
                     shape.dump().substr(0, 80), to_string(type)));
  }
  Tensor tensor = Tensor::empty(type.dtype, type.shape);
  const auto bytes = static_cast<std::uint64_t>(tensor.numel()) * size_of(type.dtype);
  const fs::path path = fs::path(folder) / fs::path(text("file")).filename();
  constexpr std::uint64_t kPart = std::uint64_t{16} << 20;
  try {
    const io::InputFile file(path);
    if (file.size() != bytes) {
      throw FileError(fmt::format("it has {} bytes, not {}", file.size(), bytes));
    }
    for (std::uint64_t at = 0; at < bytes; at += kPart) {
      if (!(clock_() < deadline_)) {
        throw FileError("it can't be read in time");
      }
      file.read(at, static_cast<std::byte*>(tensor.body()->data) + at, std::min(kPart, bytes - at));
    }
  } catch (const FileError& error) {
    fail(fmt::format("output {} doesn't lie in its folder as it is described: {}", index, error.what()));
  }
  return tensor;
}

ExternalProcess::Block ExternalProcess::timed(const char* request, std::int64_t count) {
  const double usual = kRunFactor * quickest_call_ * static_cast<double>(count);
  const double start = clock_();
  const json answer = ask({{"do", request}, {"count", count}}, grace_ + usual);
  const double passed = elapsed_since(clock_, start);
  const auto nanoseconds = answer.find("nanoseconds");
  const double said = nanoseconds != answer.end() && nanoseconds->is_number() ? nanoseconds->get<double>() * 1e-9 : -1;
  if (!(said > 0) || said > passed) {
    fail(fmt::format("it says that {} calls took {:.6g} s, while {:.6g} s passed here", count, said, passed));
  }
  grace_ -= std::max(0.0, passed / patience_ - usual);
  const double call = passed / static_cast<double>(count);
  quickest_call_ = quickest_call_ > 0 ? std::min(quickest_call_, call) : call;
  return {said, passed};
}

std::vector<ExternalProcess::NodeTime> ExternalProcess::profile(std::int64_t count, const std::string& folder) {
  const double start = clock_();
  // Preparing it may mean to load the model again.
  const json answer = ask({{"do", "profile"}, {"count", count}, {"folder", folder}},
                          kLoadSeconds + kRunFactor * quickest_call_ * static_cast<double>(count));
  const double passed = elapsed_since(clock_, start);
  const auto nodes = answer.find("nodes");
  if (nodes == answer.end() || !nodes->is_array() || nodes->empty()) {
    fail("its answer has no list of nodes");
  }
  std::vector<NodeTime> times;
  double sum = 0;
  for (const json& node : *nodes) {
    const auto text = [&](const char* name) {
      return node.is_object() && node.contains(name) && node[name].is_string() ? node[name].get<std::string>() : "";
    };
    const auto figure = [&](const char* name, double otherwise) {
      return node.is_object() && node.contains(name) && node[name].is_number() ? node[name].get<double>() : otherwise;
    };
    NodeTime& time = times.emplace_back(NodeTime{text("node"), text("op"), figure("seconds", -1), figure("runs", 1)});
    sum += time.seconds * static_cast<double>(count);
    if (time.op.empty() || !(time.seconds >= 0) || !(time.runs > 0) || time.runs > kMostRuns) {
      fail(fmt::format("its node {} isn't described by op, seconds and runs", times.size() - 1));
    }
  }
  if (sum > passed) {
    fail(fmt::format("it says that the nodes of {} calls took {:.6g} s, while {:.6g} s passed here", count, sum,
                     passed));
  }
  return times;
}

double ExternalProcess::cpu_seconds() {
  if (child_ != nullptr) {
    cpu_seconds_ = child_->cpu_seconds();
  }
  return cpu_seconds_;
}

double ExternalProcess::waited_seconds() const { return child_ != nullptr ? child_->waited_seconds() : 0; }

std::vector<profiler::ThreadTimes> ExternalProcess::threads() const {
  return child_ != nullptr ? child_->threads() : std::vector<profiler::ThreadTimes>{};
}

json ExternalProcess::peak_bytes() {
  const json answer = ask({{"do", "memory"}}, grace_);
  return number(answer, "peak_bytes", kBytesRange) ? answer["peak_bytes"] : json();
}

json ExternalProcess::counters() {
  const json answer = ask({{"do", "counters"}}, grace_);
  const auto counters = answer.find("counters");
  if (counters == answer.end() || !counters->is_object() || counters->size() > kMostCounters) {
    fail(fmt::format("its answer has no object of up to {} counters", kMostCounters));
  }
  // Of all CPUs, if it adds up those of its threads.
  const double most_seconds = elapsed_since(clock_, started_) * std::max(1U, std::thread::hardware_concurrency());
  for (const auto& [name, value] : counters->items()) {
    if (!is_plain(name)) {
      fail(fmt::format("its counter {} is {}; a name has up to {} of a-z, 0-9 and _", quote(name.substr(0, kMostName)),
                       value.dump().substr(0, 40), kMostName));
    }
    const Range range = name.ends_with("_seconds") ? Range{0, most_seconds}
                        : name.ends_with("_bytes") ? kBytesRange
                                                   : kCounterRange;
    if (const std::string complaint = complaint_about(value, name, range); !complaint.empty()) {
      fail(complaint);
    }
  }
  return *counters;
}

}  // namespace diptych::workloads
