#include "profiler/counters/counters.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <linux/perf_event.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "profiler/counters/event_encoding.h"

namespace diptych::profiler {

namespace {

constexpr double flag_below = 0.9;
constexpr double withhold_below = 0.5;
constexpr int no_file = -1;

struct Event {
  std::string name;
  bool software = false;
  int file = no_file;
  std::uint64_t id = 0;
  std::string reason;  ///< why it isn't counted
};

struct Times {
  std::uint64_t enabled = 0;
  std::uint64_t running = 0;
};

struct GroupSample {
  Times times;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> value_of_id;
  std::string reason;  ///< why it could not be read
};

template <typename Call>
auto retry_interrupted(const Call& call) {
  auto result = call();
  for (int attempt = 0; result == -EINTR && attempt < 100; ++attempt) {
    result = call();
  }
  return result;
}

/// A single group: the events of one kind, led by the first that opens.
class Group {
 public:
  Group(const SystemCalls& system, bool software) : system_(system), software_(software) {}

  void open(std::vector<Event>& events) {
    if (!software_ && system_.has_cpu_pmu() == false) {
      refuse(events,
             "no PMU: the kernel lists no CPU performance-monitoring unit (/sys/bus/event_source/devices), as "
             "in most virtual machines");
      return;
    }
    for (Event& event : events) {
      if (event.software == software_ && event.reason.empty()) {
        open_one(event);
      }
    }
  }

  void start() {
    before_ = {};
    if (leader_ == no_file) {
      return;
    }
    words_.resize(kHead + 2 * members_);
    control(PERF_EVENT_IOC_RESET);
    before_ = sample();  // a reset clears the counts but not the times
    control(PERF_EVENT_IOC_ENABLE);
  }

  /// Member by member, in the order in which they were opened; nothing if it can't be read.
  std::span<const std::uint64_t> raw() const {
    if (leader_ == no_file || read_words() != static_cast<ssize_t>(words_.size() * sizeof(std::uint64_t)) ||
        words_[0] != members_) {
      return {};
    }
    return std::span<const std::uint64_t>(words_).subspan(kHead);
  }

  GroupSample stop() {
    if (leader_ == no_file) {
      return {};
    }
    control(PERF_EVENT_IOC_DISABLE);
    GroupSample now = sample();
    now.times.enabled -= before_.times.enabled;
    now.times.running -= before_.times.running;
    if (!before_.reason.empty()) {
      now.reason = before_.reason;
    }
    return now;
  }

 private:
  void refuse(std::vector<Event>& events, const std::string& reason) const {
    for (Event& event : events) {
      if (event.software == software_ && event.reason.empty()) {
        event.reason = reason;
      }
    }
  }

  void open_one(Event& event) {
    const EncodedEvent encoded = encode_event(event.name);
    if (!encoded.encoding) {
      event.reason = encoded.reason;
      return;
    }
    perf_event_attr attributes{};
    attributes.size = sizeof(attributes);
    attributes.type = encoded.encoding->type;
    attributes.config = encoded.encoding->config;
    attributes.config1 = encoded.encoding->config1;
    attributes.config2 = encoded.encoding->config2;
    attributes.disabled = leader_ == no_file ? 1 : 0;
    attributes.exclude_hv = 1;
    // A context switch happens inside the kernel: with kernel events excluded its count would always be 0.
    attributes.exclude_kernel = event.name == "context-switches" ? 0 : 1;
    attributes.read_format =
        PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    const int file = retry_interrupted([&] { return system_.open(attributes, leader_); });
    if (file < 0) {
      event.reason = explain_open_error(-file);
      return;
    }
    if (const int status = system_.ioctl(file, PERF_EVENT_IOC_ID, &event.id); status < 0) {
      system_.close(file);
      event.reason = fmt::format("the event has no id: {}", std::generic_category().message(-status));
      return;
    }
    event.file = file;
    ++members_;
    if (leader_ == no_file) {
      leader_ = file;
    }
  }

  void control(unsigned long request) const {
    // The kernel takes the flag by value in place of the pointer.
    void* whole_group = reinterpret_cast<void*>(std::uintptr_t{PERF_IOC_FLAG_GROUP});
    system_.ioctl(leader_, request, whole_group);
  }

  static constexpr std::size_t kHead = 3;

  ssize_t read_words() const {
    return retry_interrupted(
        [&] { return system_.read(leader_, words_.data(), words_.size() * sizeof(std::uint64_t)); });
  }

  /// Layout: count, time enabled, time running, then (value, id) for each member.
  [[nodiscard]] GroupSample sample() const {
    const std::size_t size = words_.size() * sizeof(std::uint64_t);
    const ssize_t length = read_words();
    GroupSample result;
    if (length < 0) {
      result.reason = fmt::format("reading failed: {}", std::generic_category().message(static_cast<int>(-length)));
    } else if (static_cast<std::size_t>(length) != size || words_[0] != members_) {
      result.reason = fmt::format("the kernel returned {} bytes where {} were due", length, size);
    } else {
      result.times = {words_[1], words_[2]};
      for (std::size_t i = 0; i < members_; ++i) {
        result.value_of_id.emplace_back(words_[kHead + 2 * i + 1], words_[kHead + 2 * i]);
      }
    }
    return result;
  }

  const SystemCalls& system_;
  bool software_;
  int leader_ = no_file;
  std::size_t members_ = 0;
  GroupSample before_;
  mutable std::vector<std::uint64_t> words_;  ///< what was read last
};

CounterValue scaled_value(const Event& event, const GroupSample& sample) {
  CounterValue result{event.name, std::nullopt, std::nullopt, event.reason, "perf"};
  if (event.file == no_file) {
    return result;
  }
  result.reason = sample.reason;
  const auto found = std::find_if(sample.value_of_id.begin(), sample.value_of_id.end(),
                                  [&](const auto& entry) { return entry.first == event.id; });
  if (found == sample.value_of_id.end()) {
    result.reason = result.reason.empty() ? "the kernel returned no value for this event" : result.reason;
    return result;
  }
  const auto enabled = static_cast<double>(sample.times.enabled);
  const auto running = static_cast<double>(sample.times.running);
  if (sample.times.running == 0 || sample.times.enabled == 0) {
    result.running_ratio = 0.0;
    result.reason =
        "never scheduled on the PMU: the group needs more counters than are free, or the time was too short";
    return result;
  }
  result.running_ratio = running / enabled;
  if (*result.running_ratio < withhold_below) {
    result.reason = fmt::format("withheld: counted during {:.0f}% of the time only (multiplexed); ask for fewer events",
                                100.0 * *result.running_ratio);
    return result;
  }
  result.value = static_cast<double>(found->second) * (enabled / running);
  if (*result.running_ratio < flag_below) {
    result.reason =
        fmt::format("extrapolated: counted during {:.0f}% of the time (multiplexed)", 100.0 * *result.running_ratio);
  }
  return result;
}

/// The value from getrusage for a software event that perf refused.
std::optional<double> usage_value(std::string_view name, const ThreadUsage& before, const ThreadUsage& after) {
  if (name == "task-clock") {
    return after.cpu_ns - before.cpu_ns;
  }
  if (name == "page-faults") {
    return after.page_faults - before.page_faults;
  }
  if (name == "context-switches") {
    return after.context_switches - before.context_switches;
  }
  return std::nullopt;
}

}  // namespace

class CounterGroup::Implementation {
 public:
  Implementation(const std::vector<std::string>& names, SystemCalls system)
      : system_(std::move(system)), hardware_(system_, false), software_(system_, true) {
    for (const std::string& name : names) {
      const EncodedEvent encoded = encode_event(name);
      events_.push_back({name, encoded.encoding && encoded.encoding->software, no_file, 0, encoded.reason});
    }
    hardware_.open(events_);
    software_.open(events_);
  }
  ~Implementation() {
    for (const Event& event : events_) {
      if (event.file != no_file) {
        system_.close(event.file);
      }
    }
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void start() {
    started_ = true;
    usage_before_ = system_.thread_usage();
    software_.start();
    hardware_.start();  // last on, first off, because the hardware counts are the sensitive ones
  }

  void sample(std::span<double> counts) const {
    const std::span<const std::uint64_t> hardware = hardware_.raw();
    const std::span<const std::uint64_t> software = software_.raw();
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& event = events_[i];
      counts[i] = std::numeric_limits<double>::quiet_NaN();
      const std::span<const std::uint64_t> values = event.software ? software : hardware;
      for (std::size_t k = 0; event.file != no_file && k + 1 < values.size(); k += 2) {
        if (values[k + 1] == event.id) {
          counts[i] = static_cast<double>(values[k]);
        }
      }
    }
  }

  CounterReading stop() {
    if (!std::exchange(started_, false)) {
      throw Error("counters: stop() without start()");
    }
    const GroupSample hardware = hardware_.stop();
    const GroupSample software = software_.stop();
    const ThreadUsage usage_after = system_.thread_usage();
    CounterReading reading;
    for (const Event& event : events_) {
      CounterValue value = scaled_value(event, event.software ? software : hardware);
      if (!value.value && event.software) {
        if (const auto usage = usage_value(event.name, usage_before_, usage_after)) {
          value = {event.name, usage, 1.0, "", "getrusage"};
        }
      }
      reading.values.push_back(std::move(value));
    }
    return reading;
  }

 private:
  SystemCalls system_;
  std::vector<Event> events_;
  Group hardware_;
  Group software_;
  ThreadUsage usage_before_;
  bool started_ = false;
};

CounterGroup::CounterGroup(const std::vector<std::string>& events, SystemCalls system)
    : implementation_(std::make_unique<Implementation>(events, std::move(system))) {}
CounterGroup::~CounterGroup() = default;
CounterGroup::CounterGroup(CounterGroup&&) noexcept = default;
CounterGroup& CounterGroup::operator=(CounterGroup&&) noexcept = default;
void CounterGroup::start() { implementation_->start(); }
void CounterGroup::sample(std::span<double> counts) const { implementation_->sample(counts); }
CounterReading CounterGroup::stop() { return implementation_->stop(); }

}  // namespace diptych::profiler
