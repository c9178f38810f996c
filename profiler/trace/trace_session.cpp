#include "profiler/trace/trace_session.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <unordered_map>

#include <fmt/format.h>

#include "framework/core/error.h"

namespace diptych::profiler {

bool ThreadBuffer::grow() noexcept {
  TraceChunk* chunk = session_.take_chunk();
  if (chunk == nullptr) {
    return false;
  }
  if (chunk_ == nullptr) {
    first_.store(chunk, std::memory_order_release);
  } else {
    chunk_->next.store(chunk, std::memory_order_release);
  }
  chunk_ = chunk;
  used_ = 0;
  return true;
}

bool ThreadBuffer::close_down_to(const trace::Label* label, std::uint64_t now) noexcept {
  std::uint32_t below = depth_;
  while (below > 0 && open_[below - 1].label != label) {
    --below;
  }
  if (below == 0) {
    return false;
  }
  while (depth_ > below) {
    close_top(now);
    count(repaired_);
  }
  return true;
}

void TraceSession::Unmap::operator()(std::byte* memory) const noexcept { munmap(memory, bytes); }

TraceSession::TraceSession(std::size_t max_bytes)
    : memory_(nullptr, Unmap{0}), chunk_count_(std::max<std::size_t>(1, max_bytes / TraceChunk::bytes)) {
  const std::size_t bytes = chunk_count_ * TraceChunk::bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(fmt::format("tracer: no {} MiB for the trace: {}; set a smaller max_bytes", bytes >> 20U,
                            std::generic_category().message(errno)));
  }
  memory_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(memory), Unmap{bytes});
}

TraceSession::~TraceSession() = default;

TraceChunk* TraceSession::take_chunk() noexcept {
  if (next_chunk_.load(std::memory_order_relaxed) >= chunk_count_) {
    return nullptr;
  }
  const std::size_t index = next_chunk_.fetch_add(1, std::memory_order_relaxed);
  return index < chunk_count_ ? new (memory_.get() + index * TraceChunk::bytes) TraceChunk : nullptr;
}

ThreadBuffer& TraceSession::add_thread() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::make_unique<ThreadBuffer>(*this, static_cast<std::uint32_t>(gettid()), name.data()));
  return *threads_.back();
}

void TraceSession::mark_start() noexcept {
  using std::chrono::system_clock;
  start_unix_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
  start_ticks_ = ticks();
}

namespace {

/// Turns one thread's records, sorted by begin, into zones with parents.
class ThreadCollector {
 public:
  using LabelIndex = std::unordered_map<const trace::Label*, std::uint32_t>;

  ThreadCollector(Trace& trace, LabelIndex& labels, const ClockCalibration& calibration, std::int64_t start_ns)
      : trace_(trace), labels_(labels), calibration_(calibration), start_ns_(start_ns) {}

  void add(TraceRecord& record, std::uint32_t thread) {
    const std::uint64_t end = std::atomic_ref(record.end).load(std::memory_order_acquire);
    if (end == TraceRecord::is_counter) {
      trace_.counters.push_back(
          {thread, label(record.label), since_start(record.begin), static_cast<std::int64_t>(record.payload)});
      return;
    }
    Trace::Zone zone;
    zone.thread = thread;
    zone.label = label(record.label);
    zone.source_op = record.payload & TraceRecord::source_op_mask;
    zone.depth = static_cast<std::uint32_t>(record.payload >> TraceRecord::depth_shift);
    zone.begin_ns = since_start(record.begin);
    zone.end_ns = end == TraceRecord::still_open ? trace_.duration_ns : since_start(end);
    trace_.unclosed += end == TraceRecord::still_open ? 1 : 0;
    while (!open_.empty() && trace_.zones[open_.back()].depth >= zone.depth) {
      open_.pop_back();
    }
    if (!open_.empty()) {
      zone.parent = static_cast<std::int32_t>(open_.back());
    }
    keep_inside_parent(zone);
    open_.push_back(trace_.zones.size());
    trace_.zones.push_back(zone);
  }

 private:
  [[nodiscard]] std::int64_t since_start(std::uint64_t tick) const { return calibration_.to_ns(tick) - start_ns_; }

  std::uint32_t label(const trace::Label* pointer) {
    const auto [found, added] = labels_.try_emplace(pointer, static_cast<std::uint32_t>(trace_.labels.size()));
    if (added) {
      trace_.labels.push_back({pointer->name, pointer->category});
    }
    return found->second;
  }

  /// A thread that moved between cores with slightly different counters, or a zone begun while stop() ran, can end
  /// slightly outside. Viewers drop zones that overlap only partly.
  void keep_inside_parent(Trace::Zone& zone) {
    const Trace::Zone before = zone;
    if (zone.parent != Trace::no_parent) {
      const Trace::Zone& parent = trace_.zones[static_cast<std::size_t>(zone.parent)];
      zone.begin_ns = std::clamp(zone.begin_ns, parent.begin_ns, parent.end_ns);
      zone.end_ns = std::min(zone.end_ns, parent.end_ns);
    }
    zone.end_ns = std::max(zone.end_ns, zone.begin_ns);
    trace_.repaired += zone.begin_ns != before.begin_ns || zone.end_ns != before.end_ns ? 1 : 0;
  }

  Trace& trace_;
  LabelIndex& labels_;
  const ClockCalibration& calibration_;
  std::int64_t start_ns_;
  std::vector<std::size_t> open_;
};

}  // namespace

Trace TraceSession::collect(std::uint64_t stop) {
  calibration_.recalibrate();
  Trace trace;
  trace.pid = static_cast<std::uint32_t>(getpid());
  trace.start_unix_ns = start_unix_ns_;
  trace.clock = {measure_clock(calibration_), calibration_.ns_per_tick(), calibration_.drift_ppm()};
  const std::int64_t start_ns = calibration_.to_ns(start_ticks_);
  trace.duration_ns = calibration_.to_ns(stop) - start_ns;

  ThreadCollector::LabelIndex labels;
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : threads_) {
    const auto thread = static_cast<std::uint32_t>(trace.threads.size());
    trace.threads.push_back({buffer->tid(), buffer->name(), buffer->dropped()});
    trace.dropped += buffer->dropped();
    trace.repaired += buffer->repaired();
    ThreadCollector collector(trace, labels, calibration_, start_ns);
    TraceChunk* chunk = buffer->first_chunk();
    while (chunk != nullptr) {
      const std::uint32_t used = chunk->used.load(std::memory_order_acquire);
      for (std::uint32_t i = 0; i < used; ++i) {
        collector.add(chunk->records[i], thread);
      }
      chunk = chunk->next.load(std::memory_order_acquire);
    }
  }
  // A thread that still holds the session only holds its address range. Its late writes get fresh pages.
  madvise(memory_.get(), chunk_count_ * TraceChunk::bytes, MADV_DONTNEED);
  return trace;
}

std::string_view to_string(trace::Category category) noexcept {
  switch (category) {
    case trace::Category::op:
      return "op";
    case trace::Category::kernel:
      return "kernel";
    case trace::Category::autograd:
      return "autograd";
    case trace::Category::graph:
      return "graph";
    case trace::Category::pass:
      return "pass";
    case trace::Category::memory:
      return "memory";
    case trace::Category::user:
      return "user";
  }
  return "user";
}

}  // namespace diptych::profiler
