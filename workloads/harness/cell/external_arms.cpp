#include "workloads/harness/cell/external_arms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "framework/core/attributes.h"
#include "framework/core/parallel.h"
#include "workloads/harness/cell/cell.h"
#include "workloads/harness/probes/arithmetic.h"
#include "workloads/harness/probes/limits.h"
#include "workloads/onnx/export.h"
#include "workloads/onnx/workload.h"
#include "workloads/processes/child.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Of a block. So many take longer than a block even if they do nothing but return.
constexpr std::int64_t kMostCalls = std::int64_t{1} << 28;
/// CPUs that it may keep busy in its blocks if it has one thread, measured only over enough seconds to tell.
constexpr double kMostCpus = 1.5;
constexpr double kLeastForCpus = 0.5;

std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) {
    types.push_back(tensor.type());
  }
  return types;
}

/// Of the finite elements; 0 for integers.
double largest_of(const Tensor& tensor) {
  double largest = 0;
  if (is_floating(tensor.dtype())) {
    for (const double value : tensor.to_vector<double>()) {
      largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
    }
  }
  return largest;
}

/// Why the results differ; empty if they don't. The types are equal. `noise`: the part of the largest element of all
/// that floating-point elements may differ by at least.
std::string mismatch(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted, double noise) {
  double least = 0;
  for (std::size_t i = 0; noise > 0 && i < wanted.size(); ++i) {
    least = std::max(least, noise * largest_of(wanted[i]));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> a = got[i].to_vector<double>();
    const std::vector<double> b = wanted[i].to_vector<double>();
    const double most =
        is_floating(wanted[i].dtype()) ? std::max(least, kExternalTolerance * largest_of(wanted[i])) : 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      const bool equal = a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]));
      if (!equal && !(std::fabs(a[k] - b[k]) <= most)) {
        return fmt::format("element {} of output {} is {:.7g}, not {:.7g}", k, i, a[k], b[k]);
      }
    }
  }
  return {};
}

}  // namespace

ArithmeticFloor floor_of(const graph::Graph& graph) {
  // The best that the CPU has, whatever the engine was told to use.
  const Isa isa = is_supported(Isa::avx512) ? Isa::avx512 : is_supported(Isa::avx2) ? Isa::avx2 : Isa::generic;
  return {least_operations(graph), peak_flops_per_second(isa, thread_count())};
}

ExternalArm::Model external_model(const Workload& workload, std::uint64_t seed, const fs::path& folder) {
  if (is_onnx_name(workload.name)) {
    const OnnxSpec spec = parse_onnx_name(workload.name);
    const auto model = std::make_shared<const onnx::Model>(onnx::read_model(spec.path));
    ExternalArm::Model external{fs::absolute(spec.path).string(), onnx_inputs(*model, spec, seed)};
    if (!spec.is_forward()) {
      OnnxGradients gradients = make_onnx_gradients(model, spec, seed);
      external.gradients = {std::move(gradients.by), std::move(gradients.cotangents)};
      external.optimizer = spec.train;
      if (spec.train) {
        external.gradients.optimizer = described(*spec.train);
        const auto first = gradients.inputs.begin() + static_cast<std::ptrdiff_t>(gradients.model_inputs);
        external.weights.assign(first, first + static_cast<std::ptrdiff_t>(external.gradients.by.size()));
      }
    }
    return external;
  }
  if (!workload.make(seed)->is_forward()) {
    throw onnx::Unsupported("a step does more than a model's forward pass, which is what other frameworks get");
  }
  ExportedWorkload exported = export_workload(workload, seed, 0);
  const fs::path path = folder / "model.onnx";
  onnx::write_model(exported.model, path);
  return {path.string(), std::move(exported.inputs), std::move(exported.ops), std::move(exported.op_of_node)};
}

template <class Action>
void ExternalArm::attempt(const Action& action) {
  if (!runs()) {
    return;
  }
  try {
    action();
  } catch (const std::exception& error) {  // any error is this arm's alone
    fail(error.what());
  }
}

void ExternalArm::fail(const std::string& why) {
  failure_ = why.empty() ? "it failed" : why;
  if (process_ != nullptr) {
    process_->end();
  }
}

void ExternalArm::start(const Model& model, const std::vector<Tensor>& reference, const std::string& folder) {
  attempt([&] {
    folder_ = (fs::path(folder) / name()).string();  // separate: another arm's results must not pass for its own
    fs::create_directory(folder_);
    double begin = clock_();
    try {
      process_ = std::make_unique<ExternalProcess>(arm_->command, clock_);
      description_ = process_->describe();
    } catch (const ArmFailure& failure) {
      throw ArmFailure(arm_->needs.empty() ? failure.what() : fmt::format("{} ({})", failure.what(), arm_->needs));
    }
    start_seconds_ = elapsed_since(clock_, begin);
    of_gradients_ = !model.gradients.by.empty();
    optimizer_ = model.optimizer;
    weights_ = model.weights;
    if (optimizer_ && description_.value("training", json()) != json(true)) {
      throw ArmFailure("it doesn't train");
    }
    if (of_gradients_ && !optimizer_ && description_.value("gradients", json()) != json(true)) {
      throw ArmFailure("it computes no gradients");
    }
    const ExternalProcess::Loaded loaded = process_->load(model.file, model.inputs, folder_, model.gradients);
    load_seconds_ = loaded.load_seconds;
    compile_seconds_ = loaded.compile_seconds;
    begin = clock_();
    compare(reference);
    first_call_ = elapsed_since(clock_, begin);
  });
}

void ExternalArm::compare(const std::vector<Tensor>& reference) {
  const double noise = of_gradients_ ? kGradientNoise : 0;
  double moved = 0;
  const std::vector<Tensor> results = process_->check(folder_, types_of(reference), optimizer_ ? &moved : nullptr);
  if (const std::string why = mismatch(results, reference, noise); !why.empty()) {
    throw ArmFailure("wrong results: " + why);
  }
  if (optimizer_) {
    const double wanted = first_move(*optimizer_, weights_, std::span(reference).last(weights_.size()));
    if (!(std::fabs(moved - wanted) <= kMoveTolerance * wanted)) {
      throw ArmFailure(
          fmt::format("wrong results: its first step of training moves the weights by {:.4g} in the mean, not {:.4g}",
                      moved, wanted));
    }
  }
}

ExternalProcess::Block ExternalArm::block_of(Request request, std::int64_t& count, double least) {
  for (;;) {
    const ExternalProcess::Block block = (process_.get()->*request)(count);
    const double call = block.said / static_cast<double>(count);
    if (call < floor_.seconds()) {
      throw ArmFailure(fmt::format(
          "it says that a call takes {:.3g} s, while the model's {:.3g} operations take {:.3g} s at {:.3g} a "
          "second, the most that this machine does; less than a {:.0f}th of that is no computation",
          call, floor_.operations, floor_.operations / floor_.per_second, floor_.per_second, kFloorFactor));
    }
    if (block.passed >= least) {
      return block;
    }
    if (count >= kMostCalls) {
      throw ArmFailure(fmt::format("{} calls took {:.3g} s here, and {:.3g} s as it says: no call is that short", count,
                                   block.passed, block.said));
    }
    constexpr double kMostGrowth = 16;
    count = std::min(kMostCalls, static_cast<std::int64_t>(static_cast<double>(count) *
                                                           std::clamp(1.2 * least / block.passed, 2.0, kMostGrowth)));
  }
}

double ExternalArm::warm_up(double seconds, double block_seconds, std::size_t most, const ArithmeticFloor& floor) {
  double least = 0;
  attempt([&] {
    block_seconds_ = block_seconds;
    floor_ = floor;
    double spent = 0;
    do {
      std::int64_t one = 1;
      const ExternalProcess::Block call = block_of(&ExternalProcess::warm_up, one, 0);
      first_calls_.push_back(call.said);
      spent += call.passed;
    } while (spent < seconds && first_calls_.size() < most);
    // A request and its reply may take longer than a call, so a call's time is measured in blocks that are long in
    // comparison.
    std::int64_t count = 1;
    const ExternalProcess::Block block = block_of(&ExternalProcess::warm_up, count, block_seconds);
    latest_call_ = block.passed / static_cast<double>(count);
    least = std::max(block.said, block.passed - kUnaccountedSeconds) / static_cast<double>(count);
  });
  return least;
}

ExternalArm::Timed ExternalArm::time_block(std::int64_t count) {
  Timed timed;
  attempt([&] {
    if (cpu_before_ < 0) {
      cpu_before_ = process_->cpu_seconds();
      waited_before_ = process_->waited_seconds();
    }
    const double waited = own_waited_seconds();
    // What gets faster later on needs more calls than those that it warmed up with.
    calls_ = std::max({count, calls_, static_cast<std::int64_t>(std::ceil(block_seconds_ / latest_call_))});
    const ExternalProcess::Block block = block_of(&ExternalProcess::run, calls_, block_seconds_ / 2);
    waited_ += own_waited_seconds() - waited;
    passed_.push_back(block.passed);
    unaccounted_.push_back(block.passed - block.said);
    timed = {calls_, std::max(block.said, block.passed * (1 - kUnaccountedShare) - kUnaccountedSeconds)};
  });
  return timed;
}

std::vector<ExternalProcess::NodeTime> ExternalArm::profile(std::int64_t count) {
  std::vector<ExternalProcess::NodeTime> nodes;
  attempt([&] {
    const double cpu = process_->cpu_seconds();
    const double waited = process_->waited_seconds();
    nodes = process_->profile(count, folder_);
    if (cpu_before_ >= 0) {  // no part of the blocks: it may have loaded the model again, on all CPUs
      cpu_before_ += process_->cpu_seconds() - cpu;
      waited_before_ += process_->waited_seconds() - waited;
    }
  });
  return nodes;
}

void ExternalArm::finish(const std::vector<Tensor>& reference) {
  attempt([&] {
    if (passed_.empty()) {
      return;
    }
    std::vector<double> unaccounted = unaccounted_;
    const auto quarter = unaccounted.begin() + static_cast<std::ptrdiff_t>(unaccounted.size() / 4);
    std::nth_element(unaccounted.begin(), quarter, unaccounted.end());
    const double passed = median_of(passed_);
    const double most = kUnaccountedSeconds + kUnaccountedShare * passed;
    // If other programs compute too, both sides wait for a CPU.
    const double waited = waited_ + process_->waited_seconds() - waited_before_;
    const double total = std::accumulate(unaccounted.begin(), unaccounted.end(), 0.0) - waited;
    if (*quarter > most && total > most * static_cast<double>(unaccounted.size())) {
      throw ArmFailure(fmt::format("it leaves out time: of blocks of {:.4g} s here, {:.2g} s or more in three of four",
                                   passed, *quarter));
    }
    const double timed = std::accumulate(passed_.begin(), passed_.end(), 0.0);
    const double cpus = (process_->cpu_seconds() - cpu_before_) / timed;
    if (timed > kLeastForCpus && cpus > thread_count() - 1 + kMostCpus) {
      throw ArmFailure(fmt::format("it kept {:.1f} CPUs busy in its blocks; the other arms have {}", cpus,
                                   thread_count() == 1 ? "one thread" : fmt::format("{} threads", thread_count())));
    }
    compare(reference);
  });
}

json ExternalArm::describe() const {
  json arm = uncounted(*arm_);
  arm["in_ladder"] = false;
  arm["cause"] = arm_->cause;
  const auto framework = description_.find("framework");
  arm["external"] = {{"command", arm_->command},
                     {"framework", framework != description_.end() && framework->is_string() ? *framework : json()},
                     {"threads", description_.value("threads", json())},
                     {"overhead_nanoseconds", description_.value("overhead_nanoseconds", json())}};
  if (!runs()) {
    arm["failed"] = failure_;
  }
  return arm;
}

json ExternalArm::measurements() {
  json result = {
      {"name", name()},
      {"first_call_seconds", first_call_},
      {"compile_seconds", compile_seconds_},
      {"start_seconds", start_seconds_},
      {"load_seconds", load_seconds_},
      {"worst_call_seconds", std::max(first_call_, *std::max_element(first_calls_.begin(), first_calls_.end()))},
      {"warmup_seconds", first_calls_},
      {"protocol_seconds", median_of(unaccounted_)},
      {"iterations", calls_}};
  attempt([&] {
    result["memory"] = {{"peak_rss_bytes", process_->peak_bytes()},
                        {"page_faults", nullptr},
                        {"reason", "page faults: not counted in another framework's process"}};
    if (const auto has_counters = description_.find("counters");
        has_counters != description_.end() && *has_counters == true) {
      result["framework_counters"] = process_->counters();
    }
  });
  return result;
}

ExternalArms::ExternalArms(const CellPlan& plan) : plan_(plan) {
  for (const Arm* arm : plan.arms) {
    if (arm->is_external()) {
      arms_.emplace_back(*arm, plan.clock);
    }
  }
}

void ExternalArms::start(const std::vector<Tensor>& reference, const Progress& progress) {
  if (arms_.empty()) {
    return;
  }
  reference_ = reference;
  ExternalArm::Model model;
  std::string why_not;
  try {
    folder_.emplace("diptych-arms");
    model = external_model(*plan_.workload, plan_.settings.seed, folder_->path());
  } catch (const std::exception& error) {
    why_not = fmt::format("it can't get the model as ONNX: {}", error.what());
  }
  for (ExternalArm& arm : arms_) {
    if (!why_not.empty()) {
      arm.fail(why_not);
      continue;
    }
    progress(arm.name() + " starts");
    arm.start(model, reference, folder_->path().string());
  }
}

void ExternalArms::finish() {
  for (ExternalArm& arm : arms_) {
    arm.finish(reference_);
  }
}

double ExternalArms::cpu_seconds() const {
  double seconds = 0;
  for (const ExternalArm& arm : arms_) {
    seconds += arm.cpu_seconds();
  }
  return seconds;
}

}  // namespace diptych::workloads
