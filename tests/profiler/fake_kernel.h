#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <linux/perf_event.h>
#include <map>
#include <optional>
#include <vector>

#include "profiler/counters/system_calls.h"

namespace diptych::profiler {

/// A kernel with one group of hardware events and one of software events.
struct FakeKernel {
  std::optional<bool> pmu = true;
  int hardware_error = 0;  ///< from every hardware open
  int software_error = 0;
  std::map<std::uint64_t, int> error_of_config;  ///< from opening this hardware event
  int interrupted_opens = 0;
  int interrupted_reads = 0;
  int read_error = 0;
  double running_ratio = 1.0;
  std::map<std::uint64_t, std::uint64_t> counted;  ///< by config, while running; others 1000

  struct File {
    perf_event_attr attributes;
    int group;
  };
  std::map<int, File> files;
  int next_file = 10;
  int closed = 0;
  std::uint64_t enabled_ns = 500;  ///< from before: a reset doesn't clear times
  bool enabled = false;

  int open(perf_event_attr& attributes, int group) {
    if (interrupted_opens > 0) {
      --interrupted_opens;
      return -EINTR;
    }
    const bool software = attributes.type == PERF_TYPE_SOFTWARE;
    if (const int error = software ? software_error : hardware_error; error != 0) {
      return -error;
    }
    if (const auto found = error_of_config.find(attributes.config); !software && found != error_of_config.end()) {
      return -found->second;
    }
    files[next_file] = {attributes, group};
    return next_file++;
  }

  ssize_t read(int leader, void* buffer, std::size_t size) {
    if (interrupted_reads > 0) {
      --interrupted_reads;
      return -EINTR;
    }
    if (read_error != 0) {
      return -read_error;
    }
    std::vector<std::uint64_t> words{
        0, enabled_ns, 500 + static_cast<std::uint64_t>(static_cast<double>(enabled_ns - 500) * running_ratio)};
    for (const auto& [file, event] : files) {
      if (file == leader || event.group == leader) {
        ++words[0];
        const auto found = counted.find(event.attributes.config);
        const std::uint64_t full = found != counted.end() ? found->second : 1000;
        words.push_back(enabled_ns == 500 ? 0 : static_cast<std::uint64_t>(static_cast<double>(full) * running_ratio));
        words.push_back(static_cast<std::uint64_t>(file) * 111);
      }
    }
    const std::size_t bytes = words.size() * sizeof(std::uint64_t);
    if (bytes > size) {
      return -ENOSPC;
    }
    std::memcpy(buffer, words.data(), bytes);
    return static_cast<ssize_t>(bytes);
  }

  int ioctl(int file, unsigned long request, void* argument) {
    if (request == PERF_EVENT_IOC_ID) {
      const std::uint64_t id = static_cast<std::uint64_t>(file) * 111;
      std::memcpy(argument, &id, sizeof(id));
    } else if (request == PERF_EVENT_IOC_ENABLE) {
      enabled = true;
    } else if (request == PERF_EVENT_IOC_DISABLE && enabled) {
      enabled = false;
      enabled_ns += 1'000'000;
    }
    return 0;
  }

  SystemCalls calls() {
    return {[this](perf_event_attr& attributes, int group) { return open(attributes, group); },
            [this](int file, void* buffer, std::size_t size) { return read(file, buffer, size); },
            [this](int file, unsigned long request, void* argument) { return ioctl(file, request, argument); },
            [this](int) { ++closed; },
            [this] { return pmu; },
            [] {
              return ThreadUsage{5.0, 6.0, 7.0};
            }};
  }
};

}  // namespace diptych::profiler
