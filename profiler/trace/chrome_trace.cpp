#include "profiler/trace/chrome_trace.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace diptych::profiler {

namespace {

/// Room for the metadata that follows the events.
constexpr std::uint64_t trailer_bytes = 1024;

/// The names that readers of torch traces look for.
std::string_view chrome_category(trace::Category category) {
  switch (category) {
    case trace::Category::op:
      return "cpu_op";
    case trace::Category::user:
      return "user_annotation";
    default:
      return to_string(category);
  }
}

/// A JSON string with its quotes. Names are hostile input: invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// `,"Reads":[...]` and its like: what follows "External id".
std::string json_of(const OpArguments& arguments) {
  std::string text;
  const auto add = [&](const char* name, const nlohmann::json& value) {
    text += fmt::format(R"(,"{}":{})", name, value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  };
  if (!arguments.reads.empty()) {
    add("Reads", arguments.reads);
  }
  if (!arguments.input_dims.empty()) {
    add("Input Dims", arguments.input_dims);
  }
  if (!arguments.input_types.empty()) {
    add("Input type", arguments.input_types);
  }
  if (arguments.sequence) {
    add("Sequence number", *arguments.sequence);
  }
  return text;
}

/// Fixed-point microseconds: a double of microseconds since the epoch would have steps of a quarter microsecond.
struct Microseconds {
  std::int64_t ns;
};

void append(fmt::memory_buffer& buffer, Microseconds time) {
  const std::uint64_t magnitude =
      time.ns < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(time.ns) : static_cast<std::uint64_t>(time.ns);
  fmt::format_to(std::back_inserter(buffer), "{}{}.{:03}", time.ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

class Writer {
 public:
  Writer(const Trace& trace, std::ostream& out, const ChromeTraceOptions& options)
      : trace_(trace), out_(out), options_(options), arrows_(trace.zones.size()) {
    for (const auto& [source_op, arguments] : options.arguments) {
      arguments_[source_op] = json_of(arguments);
    }
    for (std::size_t i = 0; i < options.flows.size(); ++i) {
      arrows_[options.flows[i].from].push_back({i, true});
      arrows_[options.flows[i].to].push_back({i, false});
    }
    for (const Trace::Label& label : trace.labels) {
      names_.push_back(json_string(label.name));
    }
  }

  ChromeTraceSummary write() {
    fmt::format_to(std::back_inserter(buffer_),
                   "{{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":{},\"traceEvents\":[\n", trace_.start_unix_ns);
    write_threads();
    flush();
    write_events();
    write_trailer();
    flush();
    if (!out_) {
      throw FileError("chrome trace: the stream failed after " + std::to_string(summary_.bytes) +
                      " bytes; is the disk full?");
    }
    return summary_;
  }

 private:
  enum class Kind : std::uint8_t { zone, counter };
  struct Event {
    std::int64_t time_ns;
    Kind kind;
    std::size_t index;
  };

  /// One end of a flow.
  struct Arrow {
    std::size_t flow;
    bool starts;
  };

  void write_threads() {
    fmt::format_to(std::back_inserter(buffer_),
                   R"({{"ph":"M","pid":{},"tid":{},"name":"process_name","args":{{"name":"diptych"}}}})", trace_.pid,
                   trace_.pid);
    for (std::size_t i = 0; i < trace_.threads.size(); ++i) {
      const Trace::Thread& thread = trace_.threads[i];
      fmt::format_to(std::back_inserter(buffer_),
                     ",\n"
                     R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                     trace_.pid, thread.tid, json_string(thread.name));
      fmt::format_to(std::back_inserter(buffer_),
                     ",\n"
                     R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
                     trace_.pid, thread.tid, i);
    }
  }

  /// In order of time, so that a file cut at its size limit is complete up to some moment. Parents come before their
  /// children.
  void write_events() {
    std::vector<Event> events;
    events.reserve(trace_.zones.size() + trace_.counters.size());
    for (std::size_t i = 0; i < trace_.zones.size(); ++i) {
      events.push_back({trace_.zones[i].begin_ns, Kind::zone, i});
    }
    for (std::size_t i = 0; i < trace_.counters.size(); ++i) {
      events.push_back({trace_.counters[i].time_ns, Kind::counter, i});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time_ns, a.kind, a.index) < std::tie(b.time_ns, b.kind, b.index);
    });
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind == Kind::zone) {
        write_zone(events[i].index);
        write_arrows(events[i].index);
      } else {
        write_counter(trace_.counters[events[i].index]);
      }
      if (summary_.bytes + buffer_.size() + trailer_bytes > options_.max_bytes) {
        buffer_.clear();
        summary_.events_dropped = events.size() - i;
        complete_until_ns_ = events[i].time_ns;
        return;
      }
      flush();
      ++summary_.events;
    }
  }

  /// Those that a zone's time is for.
  std::vector<std::uint64_t> source_ops_of(std::size_t zone) const {
    if (!options_.source_ops.empty()) {
      return options_.source_ops[zone];
    }
    const std::uint64_t own = trace_.zones[zone].source_op;
    return own != 0 ? std::vector<std::uint64_t>{own} : std::vector<std::uint64_t>{};
  }

  void write_zone(std::size_t index) {
    const Trace::Zone& zone = trace_.zones[index];
    const auto out = std::back_inserter(buffer_);
    fmt::format_to(out,
                   ",\n"
                   R"({{"ph":"X","pid":{},"tid":{},"ts":)",
                   trace_.pid, trace_.threads[zone.thread].tid);
    append(buffer_, {zone.begin_ns});
    fmt::format_to(out, R"(,"dur":)");
    append(buffer_, {zone.duration_ns()});
    fmt::format_to(out, R"(,"cat":"{}","name":{})", chrome_category(trace_.label_of(zone).category),
                   names_[zone.label]);
    if (const std::vector<std::uint64_t> source_ops = source_ops_of(index); !source_ops.empty()) {
      fmt::format_to(out, R"(,"args":{{"External id":{})", source_ops.front());
      if (source_ops.size() > 1) {
        fmt::format_to(out, R"(,"Source ops":[{}])", fmt::join(source_ops, ","));
      }
      if (const auto arguments = arguments_.find(source_ops.front()); arguments != arguments_.end()) {
        fmt::format_to(out, "{}", arguments->second);
      }
      fmt::format_to(out, "}}");
    }
    fmt::format_to(out, "}}");
  }

  /// Ends of flows that lie in the zone just written. They are bound to it by its thread and the time.
  void write_arrows(std::size_t index) {
    const Trace::Zone& zone = trace_.zones[index];
    const auto out = std::back_inserter(buffer_);
    for (const Arrow& arrow : arrows_[index]) {
      const std::string name = json_string(options_.flows[arrow.flow].name);
      fmt::format_to(out,
                     ",\n"
                     R"({{"ph":"{}",{}"id":{},"pid":{},"tid":{},"ts":)",
                     arrow.starts ? "s" : "f", arrow.starts ? "" : R"("bp":"e",)", arrow.flow + 1, trace_.pid,
                     trace_.threads[zone.thread].tid);
      append(buffer_, {zone.begin_ns});
      fmt::format_to(out, R"(,"cat":{0},"name":{0}}})", name);
    }
  }

  void write_counter(const Trace::Counter& counter) {
    const auto out = std::back_inserter(buffer_);
    fmt::format_to(out,
                   ",\n"
                   R"({{"ph":"C","pid":{},"tid":{},"ts":)",
                   trace_.pid, trace_.threads[counter.thread].tid);
    append(buffer_, {counter.time_ns});
    if (counter.thread != 0) {  // counters are per thread; viewers would merge those of one name into one track
      fmt::format_to(out, R"(,"id":{})", trace_.threads[counter.thread].tid);
    }
    fmt::format_to(out, R"(,"cat":"{}","name":{},"args":{{"value":{}}}}})",
                   chrome_category(trace_.label_of(counter).category), names_[counter.label], counter.value);
  }

  void write_trailer() {
    const nlohmann::json other = {
        {"producer", "diptych"},
        {"clock", to_string(trace_.clock.figures.kind)},
        {"clock_resolution_ns", trace_.clock.figures.resolution_ns},
        {"clock_drift_ppm", trace_.clock.drift_ppm},
        {"duration_ns", trace_.duration_ns},
        {"events", summary_.events},
        {"events_dropped_by_file_size", summary_.events_dropped},
        {"complete_until_ns", summary_.events_dropped == 0 ? trace_.duration_ns : complete_until_ns_},
        {"records_dropped_by_tracer", trace_.dropped},
        {"zones_closed_at_stop", trace_.unclosed},
        {"zones_repaired", trace_.repaired},
    };
    fmt::format_to(std::back_inserter(buffer_), "\n],\"otherData\":{}}}\n", other.dump());
  }

  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    summary_.bytes += buffer_.size();
    buffer_.clear();
  }

  const Trace& trace_;
  std::ostream& out_;
  const ChromeTraceOptions& options_;
  std::int64_t complete_until_ns_ = 0;
  std::vector<std::string> names_;
  std::map<std::uint64_t, std::string> arguments_;  ///< by source op, as JSON
  std::vector<std::vector<Arrow>> arrows_;          ///< by zone
  fmt::memory_buffer buffer_;
  ChromeTraceSummary summary_;
};

}  // namespace

ChromeTraceSummary write_chrome_trace(const Trace& trace, std::ostream& out, const ChromeTraceOptions& options) {
  return Writer(trace, out, options).write();
}

}  // namespace diptych::profiler
