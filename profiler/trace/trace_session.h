#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "profiler/trace/clock.h"
#include "profiler/trace/trace.h"

/// The recording side of the tracer; internal to profiler/.
///
///     TraceSession: one mapping of max_bytes, cut into chunks of 64 KiB
///       +---------+---------+---------+---------+-----
///       | chunk 0 | chunk 1 | chunk 2 | chunk 3 | free
///       +---------+---------+---------+---------+-----
///          ^ next     ^          ^ next
///     ThreadBuffer A--'--->chunk 2   ThreadBuffer B -> chunk 1
///
/// A thread writes only to its own chunks and publishes each record by a release store, so that nothing on the hot path
/// locks or allocates; taking the next chunk is one atomic add. A thread keeps its session alive, so that a zone which
/// ends after stop() writes to memory that nobody reads any more.
namespace diptych::profiler {

/// A zone, written at its begin and completed at its end, or a counter sample.
struct TraceRecord {
  const trace::Label* label;
  std::uint64_t begin;    ///< ticks
  std::uint64_t end;      ///< ticks, or one of the two marks below
  std::uint64_t payload;  ///< zone: depth and source op; counter: the value

  static constexpr std::uint64_t still_open = 0;
  static constexpr std::uint64_t is_counter = ~std::uint64_t{0};
  static constexpr unsigned depth_shift = 48;
  static constexpr std::uint64_t source_op_mask = (std::uint64_t{1} << depth_shift) - 1;
};
static_assert(sizeof(TraceRecord) == 32 && std::is_trivial_v<TraceRecord> && std::is_standard_layout_v<TraceRecord>);

struct TraceChunk {
  static constexpr std::size_t bytes = std::size_t{64} << 10U;
  static constexpr std::uint32_t capacity = bytes / sizeof(TraceRecord) - 1;

  std::atomic<TraceChunk*> next{nullptr};
  std::atomic<std::uint32_t> used{0};
  alignas(sizeof(TraceRecord)) std::array<TraceRecord, capacity> records;
};
static_assert(sizeof(TraceChunk) == TraceChunk::bytes);

class TraceSession;

class ThreadBuffer {
 public:
  ThreadBuffer(TraceSession& session, std::uint32_t tid, std::string name)
      : session_(session), tid_(tid), name_(std::move(name)) {}

  void begin_zone(const trace::Label* label, std::uint64_t source_op) noexcept {
    if (depth_ == max_depth) [[unlikely]] {
      ++too_deep_;
      count(dropped_);
      return;
    }
    TraceRecord* record = allocate();
    open_[depth_] = {record, label};
    if (record != nullptr) [[likely]] {
      record->label = label;
      record->end = TraceRecord::still_open;
      record->payload = (source_op & TraceRecord::source_op_mask) | (std::uint64_t{depth_} << TraceRecord::depth_shift);
      record->begin = ticks();  // last, so that the bookkeeping above stays out of the zone
      publish();
    }
    ++depth_;
  }

  void end_zone(const trace::Label* label) noexcept {
    const std::uint64_t now = ticks();
    if (too_deep_ != 0) [[unlikely]] {
      --too_deep_;
      return;
    }
    if (depth_ == 0) [[unlikely]] {
      return;  // began before this session
    }
    if (open_[depth_ - 1].label != label && !close_down_to(label, now)) [[unlikely]] {
      return;
    }
    close_top(now);
  }

  void sample(const trace::Label* label, std::int64_t value) noexcept {
    TraceRecord* record = allocate();
    if (record != nullptr) [[likely]] {
      *record = {label, ticks(), TraceRecord::is_counter, static_cast<std::uint64_t>(value)};
      publish();
    }
  }

  [[nodiscard]] TraceChunk* first_chunk() const noexcept { return first_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint32_t tid() const noexcept { return tid_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t repaired() const noexcept { return repaired_.load(std::memory_order_relaxed); }

  static constexpr std::uint32_t max_depth = 512;

 private:
  struct Open {
    TraceRecord* record;  ///< nullptr: dropped
    const trace::Label* label;
  };

  /// Only the owning thread writes, so no read-modify-write is needed.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  TraceRecord* allocate() noexcept {
    if (used_ == TraceChunk::capacity && !grow()) [[unlikely]] {
      count(dropped_);
      return nullptr;
    }
    return &chunk_->records[used_];
  }
  void publish() noexcept { chunk_->used.store(++used_, std::memory_order_release); }
  void close_top(std::uint64_t now) noexcept {
    --depth_;
    if (TraceRecord* record = open_[depth_].record; record != nullptr) [[likely]] {
      std::atomic_ref(record->end).store(now, std::memory_order_release);
    }
  }
  bool grow() noexcept;
  /// Handles skipped ends: closes the zones above `label`. False if `label` isn't open at all.
  bool close_down_to(const trace::Label* label, std::uint64_t now) noexcept;

  TraceChunk* chunk_ = nullptr;
  std::uint32_t used_ = TraceChunk::capacity;
  std::uint32_t depth_ = 0;
  std::uint64_t too_deep_ = 0;
  TraceSession& session_;
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> repaired_{0};
  std::atomic<TraceChunk*> first_{nullptr};
  std::uint32_t tid_;
  std::string name_;
  std::array<Open, max_depth> open_;
};

class TraceSession {
 public:
  /// Maps and pre-faults the memory, so that recording causes no page faults. Throws Error.
  explicit TraceSession(std::size_t max_bytes);
  ~TraceSession();
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;

  /// nullptr if the memory is used up.
  TraceChunk* take_chunk() noexcept;
  ThreadBuffer& add_thread();
  void mark_start() noexcept;
  /// To be called after the last record; `stop` in ticks.
  Trace collect(std::uint64_t stop);

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const noexcept;
  };

  std::unique_ptr<std::byte, Unmap> memory_;
  std::size_t chunk_count_;
  std::atomic<std::size_t> next_chunk_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadBuffer>> threads_;
  ClockCalibration calibration_;
  std::uint64_t start_ticks_ = 0;
  std::int64_t start_unix_ns_ = 0;
};

}  // namespace diptych::profiler
