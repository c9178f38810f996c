#include "workloads/harness/probes/memory_watch.h"

#include <unordered_map>

#include "framework/core/allocator.h"
#include "workloads/harness/probes/clock_hooks.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

/// Blocks on their way, by address. Everything is reserved ahead: hooks must not throw.
class MemoryClock {
 public:
  MemoryClock() {
    ops_.reserve(kMost);
    samples_.reserve(kMost);
    open_.reserve(kDeepest);
  }

  void start() {
    in_use_ = allocator::stats().bytes_in_use;
    began_ = steady_seconds();
  }

  void begin(const trace::Label& label, std::uint64_t source_op) {
    if (label.category != trace::Category::op) {
      return;
    }
    if (ops_.size() == kMost || open_.size() == kDeepest) {
      is_whole_ = false;
      ++lost_;
      return;
    }
    open_.push_back(ops_.size());
    ops_.push_back({label.name, source_op, now(), 0, static_cast<int>(open_.size()) - 1});
  }
  void end(const trace::Label& label) {
    if (label.category != trace::Category::op) {
      return;
    }
    if (lost_ > 0) {
      --lost_;
    } else if (!open_.empty()) {
      ops_[open_.back()].to = now();
      open_.pop_back();
    }
  }
  void counter(std::int64_t value, const void* subject) {
    if (samples_.size() == kMost) {
      is_whole_ = false;
      return;
    }
    samples_.push_back({subject, value - in_use_, now(), open_.empty() ? WatchedBlock::kNoOp : open_.back()});
    in_use_ = value;
  }

  MemoryOfCall finish() && {
    MemoryOfCall call{std::move(ops_), {}, now(), is_whole_};
    std::unordered_map<const void*, std::size_t> alive;
    for (const Sample& sample : samples_) {
      if (sample.bytes > 0) {
        alive[sample.block] = call.blocks.size();
        call.blocks.push_back({sample.bytes, sample.seconds, call.seconds, sample.op});
      } else if (const auto found = alive.find(sample.block); found != alive.end()) {
        call.blocks[found->second].to = sample.seconds;
        alive.erase(found);
      } else {
        call.blocks.push_back({-sample.bytes, 0, sample.seconds, WatchedBlock::kNoOp, true});
      }
    }
    return call;
  }

 private:
  struct Sample {
    const void* block;
    std::int64_t bytes;  ///< negative: freed
    double seconds;
    std::size_t op;
  };
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  static constexpr std::size_t kDeepest = 256;

  double now() const { return steady_seconds() - began_; }

  std::vector<OpMark> ops_;
  std::vector<Sample> samples_;
  std::vector<std::size_t> open_;  ///< the ops around this moment
  std::int64_t in_use_ = 0;
  double began_ = 0;
  std::int64_t lost_ = 0;
  bool is_whole_ = true;
};

}  // namespace

MemoryOfCall watch_memory(const std::function<void()>& call) {
  MemoryClock clock;
  {
    const ClockHooks hooks(clock);
    clock.start();
    call();
  }
  return std::move(clock).finish();
}

}  // namespace diptych::workloads
